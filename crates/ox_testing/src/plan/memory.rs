//! Memory as a plan lays it out: bytes, each of which is either written or not.

use super::Result;
use crate::error::InterpretError;
use crate::graph::Env;
use crate::scalar::convert;
use crate::tensor::{TensorData, indices};
use half::{bf16, f16};
use ox_ir::plan::{BufId, Buffer, Place, Plan};
use ox_ir::{DType, Scalar};

/// A strided window on a storage, in elements from the start of a buffer.
#[derive(Clone)]
pub(super) struct Window {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub strides: Vec<i64>,
    pub offset: i64,
    storage: usize,
    /// Where the buffer starts in its storage, in bytes.
    start: i64,
    /// How many elements the buffer has room for.
    len: i64,
}

impl Window {
    /// Another window on the same buffer.
    pub fn with_layout(self, shape: Vec<usize>, strides: Vec<i64>, offset: i64) -> Window {
        Window { shape, strides, offset, ..self }
    }
}

pub(super) struct Memory {
    /// The inputs, then the arena, then one for each output or library buffer. None: never written.
    storages: Vec<Vec<Option<u8>>>,
    inputs: Vec<Window>,
    buffers: Vec<Window>,
    arena: usize,
    /// Storages that are gone.
    dropped: Vec<usize>,
}

impl Memory {
    pub fn new(plan: &Plan, inputs: &[TensorData], env: &Env) -> Result<Memory> {
        let mut memory = Memory { storages: Vec::new(), inputs: Vec::new(), buffers: Vec::new(), arena: 0, dropped: Vec::new() };
        for (n, input) in inputs.iter().enumerate() {
            let buffer = plan.buffers.iter().find(|b| b.place == Place::Input(n as u32));
            let window = memory.add_input(input, buffer, env)?;
            memory.write(&window, input)?;
            memory.inputs.push(window);
        }
        let bytes = plan.arena_bytes.as_ref().map_or(Ok(0), |bytes| env.eval(bytes))?;
        let arena = memory.add_storage(bytes);
        memory.arena = arena;
        for buffer in &plan.buffers {
            let window = memory.add_buffer(buffer, arena, env)?;
            memory.buffers.push(window);
        }
        Ok(memory)
    }

    fn add_storage(&mut self, bytes: i64) -> usize {
        self.storages.push(vec![None; bytes.max(0) as usize]);
        self.storages.len() - 1
    }

    /// An input lies as the plan's buffer for it says; contiguous, if the plan has none.
    fn add_input(&mut self, input: &TensorData, buffer: Option<&Buffer>, env: &Env) -> Result<Window> {
        let strides = match buffer {
            Some(buffer) => env.evals(&buffer.strides)?,
            None => (0..input.shape.len()).map(|d| input.shape[d + 1..].iter().product::<usize>() as i64).collect(),
        };
        let len = room(&input.shape, &strides);
        let storage = self.add_storage(len * input.dtype.size() as i64);
        Ok(Window { dtype: input.dtype, shape: input.shape.clone(), strides, offset: 0, storage, start: 0, len })
    }

    fn add_buffer(&mut self, buffer: &Buffer, arena: usize, env: &Env) -> Result<Window> {
        let (dtype, shape, strides) = (buffer.dtype, env.shape(&buffer.shape)?, env.evals(&buffer.strides)?);
        let len = room(&shape, &strides);
        let (storage, start) = match &buffer.place {
            Place::Input(n) => (self.input(*n)?.storage, 0),
            Place::Arena(offset) => (arena, env.eval(offset)?),
            Place::Output(_) | Place::Library => (self.add_storage(len * dtype.size() as i64), 0),
        };
        let end = start + len * dtype.size() as i64;
        if len > 0 && (start < 0 || end > self.storages[storage].len() as i64) {
            return Err(InterpretError::invalid(format!("the buffer `{buffer}` ends at byte {end}, behind its storage")));
        }
        Ok(Window { dtype, shape, strides, offset: 0, storage, start, len })
    }

    pub fn whole(&self, buf: BufId) -> Result<Window> {
        self.buffers.get(buf.index()).cloned().ok_or_else(|| InterpretError::invalid(format!("there is no buffer {buf}")))
    }

    pub fn dtype(&self, buf: BufId) -> Option<DType> {
        self.buffers.get(buf.index()).map(|b| b.dtype)
    }

    pub fn input(&self, n: u32) -> Result<Window> {
        self.inputs.get(n as usize).cloned().ok_or_else(|| InterpretError::invalid(format!("there is no input {n}")))
    }

    pub fn read_inputs(&self) -> Result<Vec<Option<TensorData>>> {
        let left = |window: &Window| (!self.dropped.contains(&window.storage)).then(|| self.read(window)).transpose();
        self.inputs.iter().map(left).collect()
    }

    pub fn write_input(&mut self, n: u32, value: &TensorData) -> Result<()> {
        let window = self.input(n)?;
        self.write(&window, value)
    }

    pub fn drop_buffer(&mut self, buf: BufId) -> Result<()> {
        let window = self.whole(buf)?;
        self.end(window.storage);
        Ok(())
    }

    /// The arena goes: nothing can be read there any more, nor written.
    pub fn release(&mut self) {
        self.end(self.arena);
    }

    fn end(&mut self, storage: usize) {
        self.storages[storage].fill(None);
        self.dropped.push(storage);
    }

    /// All bytes of the window's buffer; None for those that nobody has written.
    pub fn bytes(&self, window: &Window) -> Vec<Option<u8>> {
        self.storages[window.storage][whole_range(window)].to_vec()
    }

    pub fn set_bytes(&mut self, window: &Window, bytes: &[u8]) {
        let slots = &mut self.storages[window.storage][whole_range(window)];
        slots.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = Some(*byte));
    }

    pub fn read(&self, window: &Window) -> Result<TensorData> {
        TensorData::try_from_fn(window.dtype, &window.shape, |index| self.load(window, place(window, index)))
    }

    pub fn write(&mut self, window: &Window, value: &TensorData) -> Result<()> {
        if window.shape != value.shape {
            return Err(InterpretError::invalid(format!(
                "a value of shape {:?} for a window of {:?}",
                value.shape, window.shape
            )));
        }
        for index in indices(&window.shape) {
            self.store(window, place(window, &index), convert(value.get(&index), window.dtype))?;
        }
        Ok(())
    }

    /// Element `at` of the window's buffer.
    pub fn load(&self, window: &Window, at: i64) -> Result<Scalar> {
        let range = byte_range(window, at)?;
        let bytes: Option<Vec<u8>> = self.storages[window.storage][range].iter().copied().collect();
        let bytes = bytes.ok_or_else(|| InterpretError::invalid(format!("element {at} is read before it is written")))?;
        Ok(decode(window.dtype, &bytes))
    }

    pub fn store(&mut self, window: &Window, at: i64, value: Scalar) -> Result<()> {
        if self.dropped.contains(&window.storage) {
            return Err(InterpretError::invalid(format!("element {at} is written when its memory is gone")));
        }
        let range = byte_range(window, at)?;
        let bytes = encode(window.dtype, value);
        self.storages[window.storage][range].iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = Some(byte));
        Ok(())
    }
}

fn whole_range(window: &Window) -> std::ops::Range<usize> {
    let start = if window.len == 0 { 0 } else { window.start as usize };
    start..start + window.len as usize * window.dtype.size()
}

fn byte_range(window: &Window, at: i64) -> Result<std::ops::Range<usize>> {
    if !(0..window.len).contains(&at) {
        return Err(InterpretError::invalid(format!("element {at} of a buffer with {} elements", window.len)));
    }
    let size = window.dtype.size();
    let start = window.start as usize + at as usize * size;
    Ok(start..start + size)
}

fn place(window: &Window, index: &[usize]) -> i64 {
    window.offset + index.iter().zip(&window.strides).map(|(i, s)| *i as i64 * s).sum::<i64>()
}

/// How many elements lie between the first and the last, both included.
fn room(shape: &[usize], strides: &[i64]) -> i64 {
    if shape.contains(&0) {
        return 0;
    }
    1 + shape.iter().zip(strides).map(|(n, s)| (*n as i64 - 1) * s).sum::<i64>()
}

fn encode(dtype: DType, value: Scalar) -> Vec<u8> {
    match dtype {
        DType::F64 => value.as_f64().to_le_bytes().to_vec(),
        DType::F32 => (value.as_f64() as f32).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(value.as_f64()).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(value.as_f64()).to_le_bytes().to_vec(),
        _ => value.as_i64().to_le_bytes()[..dtype.size()].to_vec(),
    }
}

fn decode(dtype: DType, bytes: &[u8]) -> Scalar {
    let mut low = [0; 8];
    low[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
    let bits = u64::from_le_bytes(low);
    match dtype {
        DType::F64 => Scalar::Float(f64::from_bits(bits)),
        DType::F32 => Scalar::Float(f32::from_bits(bits as u32) as f64),
        DType::F16 => Scalar::Float(f16::from_bits(bits as u16).to_f64()),
        DType::BF16 => Scalar::Float(bf16::from_bits(bits as u16).to_f64()),
        _ => convert(Scalar::Int(bits as i64), dtype),
    }
}
