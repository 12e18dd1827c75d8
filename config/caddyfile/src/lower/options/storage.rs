//! The global option `storage`: a folder, or an engine in the words of Caddy's plugins.

use sluice_model::{EtcdStorage, FileStorage, PostgresStorage, RedisStorage, Storage, WeakString};

use super::super::Lowering;
use super::super::definition::Read::{Choice, Text, Texts, Time, With};
use super::super::definition::{Block, Options, option};
use crate::tree::{Directive, Token};

/// The modules, with the options of each.
pub(super) static MODULES: Block = Block::Modules(&[
    ("file_system", &FILES),
    ("etcd", &ETCD),
    ("postgres", &POSTGRES),
    ("redis", &REDIS),
]);

static FILES: Options<FileStorage> = Options::new(
    "storage",
    &[option(
        "root",
        "root <path>",
        With(|cx, line, storage| {
            if !storage.root.is_empty() {
                return cx.duplicate(line);
            }
            storage.root = cx.single_text(line)?;
            Some(())
        }),
    )],
);

static ETCD: Options<EtcdStorage> = Options::<EtcdStorage>::new(
    "storage etcd",
    &[
        option(
            "endpoints",
            "endpoints <host:port|url>...",
            Texts(|etcd| &mut etcd.endpoints),
        ),
        option("prefix", "prefix <prefix>", Text(|etcd| &mut etcd.prefix)),
        option(
            "username",
            "username <user>",
            Text(|etcd| &mut etcd.username),
        ),
        option(
            "password",
            "password <password>",
            Text(|etcd| &mut etcd.password),
        ),
        option("tls_ca", "tls_ca <file>", Text(|etcd| &mut etcd.tls_ca)),
        option(
            "tls_cert",
            "tls_cert <file>",
            Text(|etcd| &mut etcd.tls_cert),
        ),
        option("tls_key", "tls_key <file>", Text(|etcd| &mut etcd.tls_key)),
        option(
            "timeout",
            "timeout <duration>",
            Time(|etcd| &mut etcd.timeout),
        ),
        option(
            "encryption_key",
            "encryption_key <key>",
            Text(|etcd| &mut etcd.encryption_key),
        ),
        option(
            "encryption_key_file",
            "encryption_key_file <file>",
            Text(|etcd| &mut etcd.encryption_key_file),
        ),
    ],
)
.own();

static REDIS: Options<RedisStorage> = Options::<RedisStorage>::new(
    "storage redis",
    &[
        option(
            "address",
            "address <host:port>... | { <host:port>... }",
            With(|cx, line, redis| cx.listed_texts(line, &mut redis.address)),
        ),
        option(
            "host",
            "host <host>... | { <host>... }",
            With(|cx, line, redis| cx.listed_texts(line, &mut redis.host)),
        ),
        option(
            "port",
            "port <port>... | { <port>... }",
            With(|cx, line, redis| cx.listed_texts(line, &mut redis.port)),
        ),
        option(
            "db",
            "db <number>",
            With(|cx, line, redis| {
                redis.db = cx.single_number(line, "a number of a database")?;
                Some(())
            }),
        ),
        option(
            "timeout",
            "timeout <seconds>",
            With(|cx, line, redis| {
                let seconds: u32 = cx.single_number(line, "whole seconds")?;
                redis.timeout = seconds.to_string();
                Some(())
            }),
        ),
        option(
            "username",
            "username <user>",
            Text(|redis| &mut redis.username),
        ),
        option(
            "password",
            "password <password>",
            Text(|redis| &mut redis.password),
        ),
        option(
            "master_name",
            "master_name <name>",
            Text(|redis| &mut redis.master_name),
        ),
        option(
            "sentinel_password",
            "sentinel_password <password>",
            Text(|redis| &mut redis.sentinel_password),
        ),
        option(
            "key_prefix",
            "key_prefix <prefix>",
            Text(|redis| &mut redis.key_prefix),
        ),
        option(
            "encryption_key",
            "encryption_key <key>",
            Text(|redis| &mut redis.encryption_key),
        ),
        option(
            "encryption_key_file",
            "encryption_key_file <file>",
            Text(|redis| &mut redis.encryption_key_file),
        ),
        option(
            "compression",
            "compression flate|zlib|true|false",
            With(|cx, line, redis| {
                let word = cx.single(line)?;
                let text = cx.one_of(word, &["flate", "zlib", "true", "false"])?;
                redis.compression = WeakString(text);
                Some(())
            }),
        ),
        option(
            "tls_enabled",
            "tls_enabled true|false",
            With(|cx, line, redis| cx.truth(line, &mut redis.tls_enabled)),
        ),
        option(
            "tls_insecure",
            "tls_insecure true|false",
            With(|cx, line, redis| cx.truth(line, &mut redis.tls_insecure)),
        ),
        option(
            "tls_server_certs_pem",
            "tls_server_certs_pem <pem>",
            Text(|redis| &mut redis.tls_server_certs_pem),
        ),
        option(
            "tls_server_certs_path",
            "tls_server_certs_path <file>",
            Text(|redis| &mut redis.tls_server_certs_path),
        ),
        option(
            "route_by_latency",
            "route_by_latency true|false",
            With(|cx, line, redis| cx.truth(line, &mut redis.route_by_latency)),
        ),
        option(
            "route_randomly",
            "route_randomly true|false",
            With(|cx, line, redis| cx.truth(line, &mut redis.route_randomly)),
        ),
        option(
            "client_name",
            "client_name <name>",
            Text(|redis| &mut redis.client_name),
        ),
    ],
)
.own();

static POSTGRES: Options<PostgresStorage> = Options::<PostgresStorage>::new(
    "storage postgres",
    &[
        option(
            "connection_string",
            "connection_string <url>",
            Text(|postgres| &mut postgres.connection_string),
        ),
        option("host", "host <host>", Text(|postgres| &mut postgres.host)),
        option("port", "port <port>", Text(|postgres| &mut postgres.port)),
        option("user", "user <user>", Text(|postgres| &mut postgres.user)),
        option(
            "password",
            "password <password>",
            Text(|postgres| &mut postgres.password),
        ),
        option(
            "dbname",
            "dbname <database>",
            Text(|postgres| &mut postgres.dbname),
        ),
        option(
            "sslmode",
            "sslmode disable|require|verify-ca|verify-full",
            Choice(
                &["disable", "require", "verify-ca", "verify-full"],
                |postgres| &mut postgres.sslmode,
            ),
        ),
        option(
            "query_timeout",
            "query_timeout <duration>",
            Time(|postgres| &mut postgres.query_timeout),
        ),
        option(
            "lock_timeout",
            "lock_timeout <duration>",
            Time(|postgres| &mut postgres.lock_timeout),
        ),
        option(
            "disable_ddl",
            "disable_ddl true|false",
            With(|cx, line, postgres| cx.truth(line, &mut postgres.disable_ddl)),
        ),
        option(
            "encryption_key",
            "encryption_key <key>",
            Text(|postgres| &mut postgres.encryption_key),
        ),
        option(
            "encryption_key_file",
            "encryption_key_file <file>",
            Text(|postgres| &mut postgres.encryption_key_file),
        ),
    ],
)
.own();

impl Lowering<'_> {
    /// A storage, from a line whose first argument names its module.
    pub(in crate::lower) fn storage(&mut self, line: &Directive) -> Option<Storage> {
        let Some((module, args)) = line.args.split_first() else {
            return self.missing(line, "a storage module");
        };
        match module.text.as_str() {
            "file_system" => {
                self.between(line, args, 0, 1)?;
                let mut storage = FileStorage::default();
                if let Some(root) = args.first() {
                    storage.root.clone_from(&root.text);
                }
                self.read_options(&FILES, line.lines(), &mut storage)?;
                Some(Storage::FileSystem(storage))
            }
            "etcd" => {
                let mut storage = EtcdStorage {
                    endpoints: super::super::args::texts(args),
                    ..EtcdStorage::default()
                };
                self.read_options(&ETCD, line.lines(), &mut storage)?;
                if storage.endpoints.is_empty() {
                    return self.missing(line, "`endpoints`");
                }
                Some(Storage::Etcd(storage))
            }
            "redis" => self.redis(line, args).map(Storage::Redis),
            "postgres" => {
                self.between(line, args, 0, 0)?;
                let mut storage = PostgresStorage::default();
                self.read_options(&POSTGRES, line.lines(), &mut storage)?;
                Some(Storage::Postgres(storage))
            }
            _ => self.unknown_module(
                module,
                "storage module",
                &["file_system", "etcd", "redis", "postgres"],
            ),
        }
    }

    fn redis(&mut self, line: &Directive, args: &[Token]) -> Option<RedisStorage> {
        self.between(line, args, 0, 1)?;
        let mut storage = RedisStorage::default();
        if let Some(word) = args.first() {
            storage.client_type = self.one_of(word, &["simple", "cluster", "failover"])?;
        }
        self.read_options(&REDIS, line.lines(), &mut storage)?;
        if storage.client_type == "failover" && storage.master_name.is_empty() {
            return self.missing(line, "`master_name`");
        }
        Some(storage)
    }

    /// Texts as arguments, or as the lines of a block.
    fn listed_texts(&mut self, line: &Directive, into: &mut Vec<String>) -> Option<()> {
        if line.lines().is_empty() {
            *into = self.texts(line)?;
            return Some(());
        }
        self.between(line, &line.args, 0, 0)?;
        for inner in line.lines() {
            self.no_block(inner)?;
            into.push(inner.name.text.clone());
            into.extend(super::super::args::texts(&inner.args));
        }
        Some(())
    }

    fn truth(&mut self, line: &Directive, into: &mut bool) -> Option<()> {
        let word = self.single(line)?;
        *into = self.one_of(word, &["true", "false"])? == "true";
        Some(())
    }
}
