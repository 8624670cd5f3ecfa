//! Functions of the corpus as text. A case names the version and the function: `3.12 calls:keywords`.

mod common;

#[test]
fn decoded() {
    let fixtures = common::VERSIONS.map(|version| (version, common::fixture(version).1));
    ox_testing::golden::golden("bytecode", |_, input| {
        let (version, name) = input.split_once(' ').ok_or("a version and a function")?;
        let records = &fixtures.iter().find(|(v, _)| *v == version).ok_or("no such version")?.1;
        let named = |full: &str| full.split_once('@').is_some_and(|(n, _)| n == name);
        let record = records.iter().find(|r| named(&r.name)).ok_or("no such function")?;
        Ok::<_, String>(record.decode().map_err(|e| e.to_string())?.to_string())
    });
}
