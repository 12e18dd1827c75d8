//! The settings of `storage postgres`, which are those of yroc92/postgres-storage.

use sluice_model::PostgresStorage;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_store::postgres::{PostgresOptions, SchemaSetup};

use super::expanded;

pub(super) fn options(postgres: &PostgresStorage) -> Result<PostgresOptions, Refusal> {
    let text = match postgres.connection_string.as_str() {
        "" => connection(postgres)?,
        text => expanded("connection_string", text)?,
    };
    let mut options = PostgresOptions::parse(&text)
        .map_err(|what| Refusal::new(format!("storage postgres: {what}")))?;
    if postgres.disable_ddl {
        options.schema = SchemaSetup::Expect;
    }
    if let Some(timeout) = given(postgres.query_timeout) {
        options.timeout = timeout;
    }
    if let Some(ttl) = given(postgres.lock_timeout) {
        options.lease_ttl = ttl;
    }
    Ok(options)
}

/// The separate settings as a connection string.
fn connection(postgres: &PostgresStorage) -> Result<String, Refusal> {
    let mut text = String::new();
    for (setting, name, value) in [
        ("host", "host", &postgres.host),
        ("port", "port", &postgres.port),
        ("user", "user", &postgres.user),
        ("password", "password", &postgres.password),
        ("dbname", "dbname", &postgres.dbname),
        ("sslmode", "sslmode", &postgres.sslmode),
    ] {
        let value = expanded(setting, value)?;
        if !value.is_empty() {
            let value = value.replace('\\', "\\\\").replace('\'', "\\'");
            text.push_str(&format!("{name}='{value}' "));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separate_settings_are_a_connection_string() {
        let postgres = PostgresStorage {
            host: "db.test".to_owned(),
            port: "5433".to_owned(),
            user: "web".to_owned(),
            password: r"it's \ secret".to_owned(),
            dbname: "certificates".to_owned(),
            sslmode: "disable".to_owned(),
            disable_ddl: true,
            ..PostgresStorage::default()
        };
        let text = connection(&postgres).unwrap();
        assert!(text.contains(r"password='it\'s \\ secret'"), "{text}");
        let options = options(&postgres).unwrap();
        assert_eq!(options.schema, SchemaSetup::Expect);
        let shown = format!("{options:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn a_wrong_connection_string_is_refused_without_its_password() {
        let postgres = PostgresStorage {
            connection_string: "postgres://web:hush@db.test:port/x".to_owned(),
            ..PostgresStorage::default()
        };
        let refusal = options(&postgres).err().unwrap().to_string();
        assert!(!refusal.contains("hush"), "{refusal}");
    }
}
