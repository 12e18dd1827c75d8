//! Connections with special dial options: names resolved by other resolvers, or a proxy in between. `dial` takes over
//! once the connection is established.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use sluice_message::{Method, ResponseHead};
use sluice_wire::h1::{self, Progress, ResponseDecoder};

use crate::dialling::{Dialling, ProxyProtocol};
use crate::endpoint::Address;
use crate::failures::refused;
use crate::handshake::secure;
use crate::limits::PROXY_RESPONSE_BYTES_MAX;
use crate::{names, race};
use sluice_net::failure::Failure;
use sluice_net::stream::Stream;
use sluice_net::worker::Worker;

/// Connects to `address`, which must not be a Unix socket, with the options of `dialling`.
pub(crate) async fn connect(
    worker: &Rc<Worker>,
    address: &Address,
    dialling: &Dialling,
    limit: Duration,
) -> Result<Stream, Failure> {
    let Some(through) = &dialling.through else {
        let addresses = resolve(worker, address, dialling).await?;
        return race::connect(worker, &addresses, Some(dialling), limit).await;
    };
    let proxy = Address::tcp(&through.host, through.port);
    let addresses = resolve(worker, &proxy, dialling).await?;
    let mut stream = race::connect(worker, &addresses, Some(dialling), limit).await?;
    if let Some(tls) = &through.tls {
        let secured = secure(
            worker,
            stream,
            &tls.0,
            &through.host,
            dialling.handshake_timeout,
        );
        stream = Box::pin(secured).await?;
    }
    match &through.protocol {
        ProxyProtocol::Connect { authorization } => {
            let target = authority(address);
            let asked = ask_http(&mut stream, &target, authorization.as_deref());
            asked.await.map_err(refused)?;
        }
        ProxyProtocol::Socks5 { credentials } => {
            let asked = ask_socks(&mut stream, address, credentials.as_ref());
            asked.await.map_err(refused)?;
        }
    }
    Ok(stream)
}

async fn resolve(
    worker: &Rc<Worker>,
    address: &Address,
    dialling: &Dialling,
) -> Result<Vec<SocketAddr>, Failure> {
    match address {
        Address::Ip(ip) => Ok(vec![*ip]),
        Address::Name { host, port } => names::look_up(worker, host, *port, Some(dialling)).await,
        Address::Unix(_) => Err(refused(no_socket())),
    }
}

fn no_socket() -> io::Error {
    io::Error::other("a unix socket cannot be reached through a proxy")
}

/// The target host and port in a request to a proxy.
fn authority(address: &Address) -> String {
    match address {
        Address::Ip(ip) => ip.to_string(),
        Address::Name { host, port } => format!("{host}:{port}"),
        Address::Unix(_) => String::new(),
    }
}

async fn ask_http(
    stream: &mut Stream,
    authority: &str,
    authorization: Option<&str>,
) -> io::Result<()> {
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(authorization) = authorization {
        request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut decoder = ResponseDecoder::new();
    let mut received = Vec::new();
    let mut head = ResponseHead::default();
    loop {
        receive(stream, &mut received).await?;
        let decoded = decoder.decode(&h1::Limits::DEFAULT, &received, &Method::Connect, &mut head);
        match decoded.map_err(io::Error::other)? {
            Progress::Complete { consumed, .. } if consumed != received.len() => {
                return Err(io::Error::other("the proxy sent data after its response"));
            }
            Progress::Complete { .. } if head.status.code() / 100 == 2 => return Ok(()),
            Progress::Complete { .. } => {
                let status = head.status.code();
                return Err(io::Error::other(format!(
                    "the proxy responded with {status}"
                )));
            }
            _ => {}
        }
    }
}

/// RFC 1928, sections 3 to 6, and RFC 1929.
async fn ask_socks(
    stream: &mut Stream,
    address: &Address,
    credentials: Option<&(String, String)>,
) -> io::Result<()> {
    const PLAIN: u8 = 0;
    const BY_PASSWORD: u8 = 2;
    let greeting: &[u8] = match credentials {
        None => &[5, 1, PLAIN],
        Some(_) => &[5, 2, PLAIN, BY_PASSWORD],
    };
    stream.write_all(greeting).await?;
    let mut received = Vec::new();
    let method = take(stream, &mut received, 2).await?;
    let by_password = method[..2] == [5, BY_PASSWORD];
    match (by_password, credentials) {
        (true, Some((user, password))) => {
            let mut text = vec![1];
            for part in [user, password] {
                text.push(u8::try_from(part.len()).map_err(io::Error::other)?);
                text.extend_from_slice(part.as_bytes());
            }
            stream.write_all(&text).await?;
            if take(stream, &mut received, 2).await?[1] != 0 {
                return Err(io::Error::other(
                    "the proxy refused the user name and password",
                ));
            }
        }
        _ if method[..2] == [5, PLAIN] => {}
        _ => {
            return Err(io::Error::other(
                "the proxy requires an unsupported authentication method",
            ));
        }
    }
    stream.write_all(&socks_request(address)?).await?;
    let response = take(stream, &mut received, 5).await?;
    if response[..2] != [5, 0] {
        return Err(io::Error::other(format!(
            "the proxy responded with {}",
            response[1]
        )));
    }
    // The rest of the proxy's bound address, of which the first byte was read, and its port.
    let rest = match response[3] {
        1 => 3 + 2,
        3 => usize::from(response[4]) + 2,
        4 => 15 + 2,
        _ => {
            return Err(io::Error::other(
                "the proxy responded with an unknown address type",
            ));
        }
    };
    take(stream, &mut received, rest).await?;
    match received.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other("the proxy sent data after its response")),
    }
}

fn socks_request(address: &Address) -> io::Result<Vec<u8>> {
    // Version 5, command CONNECT, a reserved byte.
    let mut request = vec![5, 1, 0];
    let port = match address {
        Address::Ip(ip) => {
            match ip.ip() {
                IpAddr::V4(v4) => {
                    request.push(1);
                    request.extend_from_slice(&v4.octets());
                }
                IpAddr::V6(v6) => {
                    request.push(4);
                    request.extend_from_slice(&v6.octets());
                }
            }
            ip.port()
        }
        Address::Name { host, port } => {
            request.push(3);
            request.push(u8::try_from(host.len()).map_err(io::Error::other)?);
            request.extend_from_slice(host.as_bytes());
            *port
        }
        Address::Unix(_) => return Err(no_socket()),
    };
    request.extend_from_slice(&port.to_be_bytes());
    Ok(request)
}

/// Removes `count` bytes from `received`, receiving more as needed.
async fn take(stream: &mut Stream, received: &mut Vec<u8>, count: usize) -> io::Result<Vec<u8>> {
    while received.len() < count {
        receive(stream, received).await?;
    }
    let rest = received.split_off(count);
    Ok(std::mem::replace(received, rest))
}

/// Receives at least one byte.
async fn receive(stream: &mut Stream, received: &mut Vec<u8>) -> io::Result<()> {
    if received.len() >= PROXY_RESPONSE_BYTES_MAX {
        return Err(io::Error::other(
            "the response head of the proxy is too long",
        ));
    }
    received.reserve(PROXY_RESPONSE_BYTES_MAX - received.len());
    match poll_fn(|cx| stream.poll_read(cx, received)).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
