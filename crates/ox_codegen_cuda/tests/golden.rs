//! The CUDA C++ of a few kernels, read in review.

use ox_codegen_cuda::{Options, emit};
use ox_ir::Kernel;

#[test]
fn text() {
    let options = Options { arch: 90, ordered: false, multiprocessors: 0, careful: false };
    ox_testing::golden::golden("codegen_cuda", |_, input| {
        let kernel = Kernel::parse(input).map_err(|e| format!("{e:?}"))?;
        Ok::<_, String>(emit(&kernel, "k", &options).map_err(|e| e.to_string())?.text)
    });
}
