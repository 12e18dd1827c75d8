//! The modules of the server: which function builds the handlers of each. The builder of the pipeline calls it for
//! each handler of a configuration.

use sluice_model::Handler as Config;

use crate::handlers;
use sluice_pipeline::build::Builder;
use sluice_pipeline::handler::Handler;
use sluice_pipeline::refusal::Refusal;

type Built = Result<Box<dyn Handler>, Refusal>;

/// Builds a module. Most are one handler.
pub(crate) fn build<'m>(
    config: &'m Config,
    cx: &mut Builder<'m>,
) -> Result<Vec<Box<dyn Handler>>, Refusal> {
    match config {
        Config::Nginx(nginx) => handlers::nginx::build(nginx, cx),
        // Its own handlers read the body.
        Config::Subroute(_) => Ok(vec![one(config, cx)?]),
        _ if cx.needs_body(config) => Ok(vec![handlers::body_text::before(one(config, cx)?)]),
        _ => Ok(vec![one(config, cx)?]),
    }
}

fn one<'m>(config: &'m Config, cx: &mut Builder<'m>) -> Built {
    match config {
        Config::AcmeServer(config) => handlers::acme_server::build(config, cx),
        Config::Authentication(config) => handlers::authentication::build(config, cx),
        Config::Cache(config) => handlers::cache::build(config, cx),
        Config::Encode(config) => handlers::encode::build(config, cx),
        Config::Error(config) => handlers::error::build(config, cx),
        Config::FileServer(config) => handlers::file_server::build(config, cx),
        Config::Headers(config) => handlers::headers::build(config, cx),
        Config::InFlight(config) => handlers::in_flight::build(config, cx),
        Config::Invoke(config) => handlers::subroute::build_invoke(config, cx),
        Config::LogAppend(config) => handlers::log_append::build(config, cx),
        Config::Map(config) => handlers::map::build(config, cx),
        Config::Metrics(config) => Ok(handlers::metrics::build(config, cx)),
        Config::RateLimit(config) => match config.nginx {
            true => handlers::nginx::limit_req::build(config, cx),
            false => handlers::rate_limit::build(config, cx),
        },
        Config::RequestBody(config) => handlers::request_body::build(config, cx),
        Config::ReverseProxy(config) => handlers::reverse_proxy::build(config, cx),
        Config::Rewrite(config) => handlers::rewrite::build(config, cx),
        Config::StaticResponse(config) => handlers::static_response::build(config, cx),
        Config::Subroute(config) => Ok(handlers::subroute::build(config, cx)),
        Config::Templates(config) => handlers::templates::build(config, cx),
        Config::Tracing(config) => handlers::tracing::build(config, cx),
        Config::Vars(config) => handlers::vars::build(config, cx),
        Config::CopyResponse(config) => handlers::copy_response::build(config, cx),
        Config::CopyResponseHeaders(config) => Ok(handlers::copy_response::build_headers(config)),
        Config::Intercept(config) => handlers::intercept::build(config, cx),
        // Expands to two handlers; built above.
        Config::Nginx(_) => Err(Refusal::new("`nginx` stands alone in its route")),
        Config::NginxAccess(config) => handlers::nginx::access::build(config, cx),
        Config::NginxAddition(config) => handlers::nginx::addition::build(config, cx),
        Config::NginxCharset(config) => handlers::nginx::charset::build(config, cx),
        Config::NginxConnections(config) => handlers::nginx::limit_conn::build(config, cx),
        Config::NginxContent(config) => handlers::nginx::content::build(config, cx),
        Config::NginxRanges(config) => Ok(handlers::nginx::ranges::build(config)),
        Config::NginxRate(config) => handlers::nginx::rate::build(config, cx),
        Config::NginxRealIp(config) => handlers::nginx::realip::build(config),
        Config::NginxExpires(config) => handlers::nginx::expires::build(config, cx),
        Config::NginxFiles(config) => handlers::nginx::files::build(config, cx),
        Config::NginxGunzip(config) => handlers::nginx::gunzip::build(config, cx),
        Config::NginxGzip(config) => handlers::nginx::gzip::build(config, cx),
        Config::NginxLog(config) => handlers::nginx::log::build(config, cx),
        Config::NginxMirror(config) => handlers::nginx::mirror::build(config, cx),
        Config::NginxPass(config) => handlers::nginx::pass::build(config, cx),
        Config::NginxSlice(config) => handlers::nginx::slice::build(config, cx),
        Config::NginxSsi(config) => handlers::nginx::ssi::build(config, cx),
        Config::NginxSub(config) => handlers::nginx::substitute::build(config, cx),
        Config::NginxTrailers(config) => handlers::nginx::trailers::build(config, cx),
        Config::NginxTryFiles(config) => handlers::nginx::try_files::build(config, cx),
        Config::NginxUserId(config) => handlers::nginx::user_id::build(config, cx),
        Config::Push(_) => Ok(Box::new(handlers::push::Push)),
        Config::Other(_) => Err(
            Refusal::new(format!("unknown handler `{}`", config.module()))
                .with_help("remove it, or serve this site with the server that has it"),
        ),
    }
}
