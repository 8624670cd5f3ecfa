//! Functions that write arguments although neither their names nor their schemas say so.

use super::call::Request;
use ox_ops::{FrontValue, TensorRef, ValueOf};

/// A parameter: its place and its name.
type Parameter = (usize, &'static str);

enum When {
    Always,
    /// The argument is not None.
    Given(Parameter),
    /// The flag is set; what it is if it is not given.
    Set(Parameter, bool),
}

struct Writer {
    functions: &'static [(&'static str, &'static str)],
    when: When,
    written: &'static [Parameter],
}

const WRITERS: &[Writer] = &[
    Writer {
        functions: &[("F", "embedding"), ("F", "embedding_bag")],
        when: When::Given((3, "max_norm")),
        written: &[(1, "weight")],
    },
    Writer {
        functions: &[("F", "batch_norm")],
        when: When::Set((5, "training"), false),
        written: &[(1, "running_mean"), (2, "running_var")],
    },
    Writer {
        functions: &[("F", "instance_norm")],
        when: When::Set((5, "use_input_stats"), true),
        written: &[(1, "running_mean"), (2, "running_var")],
    },
    Writer {
        functions: &[
            ("torch", "batch_norm"),
            ("aten", "batch_norm"),
            ("torch", "native_batch_norm"),
            ("aten", "native_batch_norm"),
            ("torch", "instance_norm"),
            ("aten", "instance_norm"),
        ],
        when: When::Set((5, "training"), true),
        written: &[(3, "running_mean"), (4, "running_var")],
    },
    Writer {
        functions: &[("torch", "batch_norm_update_stats"), ("aten", "batch_norm_update_stats")],
        when: When::Always,
        written: &[(1, "running_mean"), (2, "running_var")],
    },
    Writer {
        functions: &[("torch", "_fused_adam_"), ("torch", "_fused_adamw_")],
        when: When::Always,
        written: &[(0, "self"), (1, "grads"), (2, "exp_avgs"), (3, "exp_avg_sqs"), (4, "max_exp_avg_sqs")],
    },
    Writer {
        functions: &[("torch", "_fused_sgd_")],
        when: When::Always,
        written: &[(0, "self"), (1, "grads"), (2, "momentum_buffer_list")],
    },
    Writer {
        functions: &[("torch", "_fused_adagrad_")],
        when: When::Always,
        written: &[(0, "self"), (1, "grads"), (2, "state_sums"), (3, "state_steps")],
    },
];

/// The tensors that such a function writes in this call.
pub(super) fn written(request: &Request<'_>) -> Vec<TensorRef> {
    let name = (request.name.namespace.as_str(), request.name.name.as_str());
    let writers = WRITERS.iter().filter(|writer| writer.functions.contains(&name) && writer.when.holds(request));
    let parameters = writers.flat_map(|writer| writer.written);
    parameters.filter_map(|parameter| given(request, *parameter)).flat_map(|value| value.tensors()).collect()
}

impl When {
    fn holds(&self, request: &Request<'_>) -> bool {
        match self {
            When::Always => true,
            When::Given(parameter) => given(request, *parameter).is_some_and(|value| !value.is_none()),
            When::Set(parameter, default) => match given(request, *parameter) {
                Some(ValueOf::Bool(set)) => *set,
                _ => *default,
            },
        }
    }
}

fn given<'a>(request: &'a Request<'_>, (place, name): Parameter) -> Option<&'a FrontValue> {
    let named = || request.kwargs.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    request.args.get(place).or_else(named)
}
