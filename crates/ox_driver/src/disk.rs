//! What other processes have compiled. Without `use_disk` nothing is read or written: so it is for whoever tests the compiler.

use crate::options::Options;
use ox_codegen_cpu::{Backend, LoadedKernel};
use ox_store::{Key, Place, Store};
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Some hundred thousand kernels.
const MOST_BYTES: u64 = 1 << 30;

static IS_USED: AtomicBool = AtomicBool::new(false);

/// The user's folder, and which build of ours asks.
pub(crate) struct Disk {
    store: Store,
    build: String,
}

/// From now on compiled kernels are kept in the user's folder for caches, if there is one and if this build can be told from others.
pub fn use_disk() {
    IS_USED.store(true, Ordering::Relaxed);
}

/// The environment is asked by the first compile: a process that was forked may have got another.
fn disk() -> Option<&'static Disk> {
    static DISK: OnceLock<Option<Disk>> = OnceLock::new();
    let open = || {
        let place = Place::usual(|name| std::env::var_os(name).map(PathBuf::from))?;
        Some(Disk { store: Store::new(place, ox_runtime::user(), MOST_BYTES), build: ox_runtime::build()? })
    };
    if IS_USED.load(Ordering::Relaxed) { DISK.get_or_init(open).as_ref() } else { None }
}

/// None where nothing is to be kept.
pub(crate) fn wanted(options: &Options) -> Option<&'static Disk> {
    disk().filter(|_| options.disk_cache)
}

/// The artifacts of one kind, by one maker; or nothing, where nothing is kept.
pub(crate) struct Shelf {
    disk: Option<&'static Disk>,
    kind: &'static str,
    maker: String,
}

impl Shelf {
    /// Object code for this machine's processor: what the code generator makes of a kernel follows from its build.
    pub(crate) fn of_objects(disk: Option<&'static Disk>, backend: &Backend) -> Shelf {
        let build = disk.map_or("", |disk| &disk.build);
        Shelf { disk, kind: "object", maker: format!("{build} {}", backend.host_key()) }
    }

    /// What NVRTC makes of a text follows from the text, and from NVRTC's version and options: other builds may have the same.
    pub(crate) fn of_cubins(disk: Option<&'static Disk>, maker: Option<String>) -> Shelf {
        Shelf { disk: disk.filter(|_| maker.is_some()), kind: "cubin", maker: maker.unwrap_or_default() }
    }

    pub(crate) fn find(&self, of: &impl Hash) -> Option<Vec<u8>> {
        self.disk?.store.find(&self.key(of))
    }

    pub(crate) fn keep(&self, of: &impl Hash, bytes: &[u8]) {
        if let Some(disk) = self.disk {
            disk.store.keep(&self.key(of), bytes);
        }
    }

    pub(crate) fn found_or_made<E>(&self, of: &impl Hash, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        if let Some(found) = self.find(of) {
            return Ok(found);
        }
        let made = make()?;
        self.keep(of, &made);
        Ok(made)
    }

    /// A kernel that somebody has compiled.
    pub(crate) fn kernel(&self, backend: &Backend, of: &impl Hash) -> Option<LoadedKernel> {
        backend.load_object(&self.find(of)?).ok()
    }

    fn key(&self, of: &impl Hash) -> Key {
        Key::new(self.kind, &self.maker, of)
    }
}

/// What the user should hear of: artifacts are not kept.
pub(crate) fn trouble(options: &Options) -> Option<String> {
    let trouble = wanted(options)?.store.trouble()?;
    Some(format!(
        "compiled kernels are not kept for other processes ({trouble}); OXYTORCH_CACHE_DIR names another folder, OXYTORCH_DISK_CACHE=0 goes without"
    ))
}

/// Where artifacts are kept, in words.
pub fn disk_folder(options: &Options) -> String {
    wanted(options).map_or("no folder".into(), |disk| disk.store.place().folder.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache;

    /// As statics are.
    fn disk_in(folder: PathBuf, build: &str) -> &'static Disk {
        let place = Place::new(&folder, true).unwrap();
        Box::leak(Box::new(Disk { store: Store::new(place, ox_runtime::user(), MOST_BYTES), build: build.into() }))
    }

    fn leaked(name: &str) -> &'static Disk {
        let folder = std::env::temp_dir().join(format!("oxytorch-disk-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        disk_in(folder, "a build")
    }

    fn kernel(sizes: &str, name: &str) -> cache::Key {
        let text = format!(
            "sizes {sizes}\nkernel {name}(b0: f32 in, b1: f32 out, i0 < s0) lanes=outer parallel {{\n  pass {{\n    v0 = load b0[i0]\n    store b1[i0] v0\n  }}\n}}\n"
        );
        cache::Key::new(&ox_ir::Kernel::parse(&text).unwrap())
    }

    #[test]
    fn code_for_another_processor_or_by_another_build_is_not_found() {
        let (disk, backend) = (leaked("processors"), Backend::new().unwrap());
        let of = kernel("s0 in 2..", "copy");
        Shelf::of_objects(Some(disk), &backend).keep(&of, b"code");
        assert_eq!(Shelf::of_objects(Some(disk), &backend).find(&of).as_deref(), Some(b"code".as_slice()));
        let other = Backend::for_cpu("x86-64", "+sse2").unwrap();
        assert_eq!(Shelf::of_objects(Some(disk), &other).find(&of), None);
        let folder = disk.store.place().folder.clone();
        assert_eq!(Shelf::of_objects(Some(disk_in(folder.clone(), "another")), &backend).find(&of), None);
        let _ = std::fs::remove_dir_all(folder);
    }

    /// Code relies on what is known of sizes; a name says nothing.
    #[test]
    fn kernels_are_told_by_their_sizes_and_not_by_their_names() {
        let (disk, backend) = (leaked("sizes"), Backend::new().unwrap());
        let shelf = Shelf::of_objects(Some(disk), &backend);
        shelf.keep(&kernel("s0 in 16.. by 16", "copy"), b"code");
        assert!(shelf.find(&kernel("s0 in 16.. by 16", "another")).is_some());
        for other in ["s0 in 2..", "s0 in 16..", "s0 in 32.. by 16"] {
            assert_eq!(shelf.find(&kernel(other, "copy")), None, "{other}");
        }
        let _ = std::fs::remove_dir_all(&disk.store.place().folder);
    }

    #[test]
    fn what_was_made_is_not_made_again_and_failures_are_not_kept() {
        let disk = leaked("made");
        let shelf = Shelf { disk: Some(disk), kind: "cubin", maker: "NVRTC".into() };
        let (text, failure): (_, Result<Vec<u8>, &str>) = ("a unit".to_string(), Err("out of memory"));
        assert_eq!(shelf.found_or_made(&text, || failure), Err("out of memory"));
        assert_eq!(shelf.found_or_made::<()>(&text, || Ok(vec![1])), Ok(vec![1]));
        assert_eq!(shelf.found_or_made(&text, || Err("it is asked again")), Ok(vec![1]));
        let other = Shelf { disk: Some(disk), kind: "cubin", maker: "a newer NVRTC".into() };
        assert_eq!(other.found_or_made::<()>(&text, || Ok(vec![2])), Ok(vec![2]));
        let _ = std::fs::remove_dir_all(&disk.store.place().folder);
    }

    /// What cannot be loaded is compiled.
    #[test]
    fn what_is_no_code_is_no_kernel() {
        let (disk, backend) = (leaked("no-code"), Backend::new().unwrap());
        let (shelf, of) = (Shelf::of_objects(Some(disk), &backend), kernel("s0 in 2..", "copy"));
        shelf.keep(&of, b"no code");
        assert!(shelf.find(&of).is_some() && shelf.kernel(&backend, &of).is_none());
        let _ = std::fs::remove_dir_all(&disk.store.place().folder);
    }
}
