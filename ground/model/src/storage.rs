//! Where certificates and other lasting things are kept. The words for engines are those of Caddy's plugins:
//! `pberkel/caddy-storage-redis`, `yroc92/postgres-storage` and `alien43/caddy-storage-etcd`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::object::{objects, tagged};
use crate::{Duration, WeakString};

objects! {
    /// Storage in a folder.
    pub struct FileStorage {
        /// The folder.
        pub root: String,
    }

    /// Storage in etcd.
    pub struct EtcdStorage {
        /// The members, as `host:port` or URLs. A call goes to the next one if one fails.
        pub endpoints: Vec<String>,
        /// What the keys begin with; `/sluice` when empty.
        pub prefix: String,
        /// The user. Our own addition, as is all that follows.
        pub username: String,
        /// Its password.
        pub password: String,
        /// A file with the certificates of the CAs that members are verified with; the system's when empty.
        pub tls_ca: String,
        /// A file with the certificate that members ask for.
        pub tls_cert: String,
        /// A file with its key.
        pub tls_key: String,
        /// How long a call may take.
        pub timeout: Duration,
        /// The key that private keys are encrypted with: 32 characters or 64 hexadecimal digits.
        pub encryption_key: String,
        /// A file with such keys, one in each line; the first encrypts.
        pub encryption_key_file: String,
    }

    /// Storage in Redis or Valkey.
    pub struct RedisStorage {
        /// `simple`, `cluster` or `failover` (Sentinel); `simple` when empty.
        pub client_type: String,
        /// The servers, as `host:port`.
        pub address: Vec<String>,
        /// Their hosts, when there is no address.
        pub host: Vec<String>,
        /// Their ports.
        pub port: Vec<String>,
        /// The number of the database.
        pub db: i64,
        /// How long a call may take, in seconds.
        pub timeout: String,
        /// The user.
        pub username: String,
        /// Its password.
        pub password: String,
        /// The name of the master that the sentinels know.
        pub master_name: String,
        /// The password of the sentinels.
        pub sentinel_password: String,
        /// What the keys begin with; `caddy` when empty.
        pub key_prefix: String,
        /// The key that values are encrypted with.
        pub encryption_key: String,
        /// How values are compressed: `flate`, `zlib`, or not when `false`.
        pub compression: WeakString,
        /// Whether connections are encrypted.
        pub tls_enabled: bool,
        /// Whether the certificate of the server is not verified.
        pub tls_insecure: bool,
        /// The CAs that it is verified with, as PEM.
        pub tls_server_certs_pem: String,
        /// A file with them.
        pub tls_server_certs_path: String,
        /// Whether reads go to the nearest server of a cluster.
        pub route_by_latency: bool,
        /// Whether reads go to any server of a cluster.
        pub route_randomly: bool,
        /// The name of the connections.
        pub client_name: String,
        /// A file with that key. Our own addition.
        pub encryption_key_file: String,
    }

    /// Storage in PostgreSQL.
    pub struct PostgresStorage {
        /// How long a statement may take.
        pub query_timeout: Duration,
        /// How long a lock lasts without its holder.
        pub lock_timeout: Duration,
        /// The host.
        pub host: String,
        /// The port.
        pub port: String,
        /// The user.
        pub user: String,
        /// Its password.
        pub password: String,
        /// The database.
        pub dbname: String,
        /// `disable`, `require`, `verify-ca` or `verify-full`.
        pub sslmode: String,
        /// All of these as a URL.
        pub connection_string: String,
        /// Whether the tables exist already.
        pub disable_ddl: bool,
        /// The key that private keys are encrypted with: 32 characters or 64 hexadecimal digits. Our own addition.
        pub encryption_key: String,
        /// A file with such keys, one in each line; the first encrypts. Our own addition.
        pub encryption_key_file: String,
    }
}

tagged! {
    /// Where certificates and other lasting things are kept.
    pub enum Storage by "module" {
        /// A folder.
        FileSystem(FileStorage) = "file_system",
        /// etcd.
        Etcd(EtcdStorage) = "etcd",
        /// Redis or Valkey.
        Redis(RedisStorage) = "redis",
        /// PostgreSQL.
        Postgres(PostgresStorage) = "postgres",
    }
}
