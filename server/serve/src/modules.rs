//! The modules of the server: which function builds the handlers of each. The builder of the pipeline calls it for
//! each handler of a configuration.

use sluice_model::Handler as Config;
use sluice_model::proxy::ReverseProxy;

use sluice_pipeline::build::Builder;
use sluice_pipeline::handler::Handler;
use sluice_pipeline::refusal::Refusal;
use sluice_proxy::reverse_proxy::dialect::Caddyfile;
use sluice_proxy::reverse_proxy::language::Language;
use sluice_server_nginx::proxy::language::NginxConf;

type Built = Result<Box<dyn Handler>, Refusal>;

/// Builds a module. Most are one handler.
pub(crate) fn build<'m>(
    config: &'m Config,
    cx: &mut Builder<'m>,
) -> Result<Vec<Box<dyn Handler>>, Refusal> {
    match config {
        Config::Nginx(nginx) => sluice_server_nginx::build(nginx, cx),
        // Its own handlers read the body.
        Config::Subroute(_) => Ok(vec![one(config, cx)?]),
        _ if cx.needs_body(config) => {
            Ok(vec![sluice_handlers::body_text::before(one(config, cx)?)])
        }
        _ => Ok(vec![one(config, cx)?]),
    }
}

fn one<'m>(config: &'m Config, cx: &mut Builder<'m>) -> Built {
    match config {
        Config::AcmeServer(config) => sluice_handlers::acme_server::build(config, cx),
        Config::Authentication(config) => sluice_handlers::authentication::build(config, cx),
        Config::Cache(config) => sluice_proxy::cache::build(config, &*language(&config.origin), cx),
        Config::Encode(config) => sluice_handlers::encode::build(config, cx),
        Config::Error(config) => sluice_handlers::error::build(config, cx),
        Config::FileServer(config) => sluice_handlers::file_server::build(config, cx),
        Config::Headers(config) => sluice_handlers::headers::build(config, cx),
        Config::InFlight(config) => sluice_handlers::in_flight::build(config, cx),
        Config::Invoke(config) => sluice_handlers::subroute::build_invoke(config, cx),
        Config::LogAppend(config) => sluice_handlers::log_append::build(config, cx),
        Config::Map(config) => sluice_handlers::map::build(config, cx),
        Config::Metrics(config) => Ok(sluice_handlers::metrics::build(config, cx)),
        Config::RateLimit(config) => match config.nginx {
            true => sluice_server_nginx::limit_req::build(config, cx),
            false => sluice_handlers::rate_limit::build(config, cx),
        },
        Config::RequestBody(config) => sluice_handlers::request_body::build(config, cx),
        Config::ReverseProxy(config) => {
            sluice_proxy::reverse_proxy::build(config, &*language(config), cx)
        }
        Config::Rewrite(config) => sluice_handlers::rewrite::build(config, cx),
        Config::StaticResponse(config) => sluice_handlers::static_response::build(config, cx),
        Config::Subroute(config) => Ok(sluice_handlers::subroute::build(config, cx)),
        Config::Templates(config) => sluice_handlers::templates::build(config, cx),
        Config::Tracing(config) => sluice_handlers::tracing::build(config, cx),
        Config::Vars(config) => sluice_handlers::vars::build(config, cx),
        Config::CopyResponse(config) => sluice_handlers::copy_response::build(config, cx),
        Config::CopyResponseHeaders(config) => {
            Ok(sluice_handlers::copy_response::build_headers(config))
        }
        Config::Intercept(config) => sluice_handlers::intercept::build(config, cx),
        // Expands to two handlers; built above.
        Config::Nginx(_) => Err(Refusal::new("`nginx` stands alone in its route")),
        Config::NginxAccess(config) => sluice_server_nginx::access::build(config, cx),
        Config::NginxAddition(config) => sluice_server_nginx::addition::build(config, cx),
        Config::NginxCharset(config) => sluice_server_nginx::charset::build(config, cx),
        Config::NginxConnections(config) => sluice_server_nginx::limit_conn::build(config, cx),
        Config::NginxContent(config) => sluice_server_nginx::content::build(config, cx),
        Config::NginxRanges(config) => Ok(sluice_server_nginx::ranges::build(config)),
        Config::NginxRate(config) => sluice_server_nginx::rate::build(config, cx),
        Config::NginxRealIp(config) => sluice_server_nginx::realip::build(config),
        Config::NginxExpires(config) => sluice_server_nginx::expires::build(config, cx),
        Config::NginxFiles(config) => sluice_server_nginx::files::build(config, cx),
        Config::NginxGunzip(config) => sluice_server_nginx::gunzip::build(config, cx),
        Config::NginxGzip(config) => sluice_server_nginx::gzip::build(config, cx),
        Config::NginxLog(config) => sluice_server_nginx::log::build(config, cx),
        Config::NginxMirror(config) => sluice_server_nginx::mirror::build(config, cx),
        Config::NginxPass(config) => sluice_server_nginx::pass::build(config, cx),
        Config::NginxSlice(config) => sluice_server_nginx::slice::build(config, cx),
        Config::NginxSsi(config) => sluice_server_nginx::ssi::build(config, cx),
        Config::NginxSub(config) => sluice_server_nginx::substitute::build(config, cx),
        Config::NginxTrailers(config) => sluice_server_nginx::trailers::build(config, cx),
        Config::NginxTryFiles(config) => sluice_server_nginx::try_files::build(config, cx),
        Config::NginxUserId(config) => sluice_server_nginx::user_id::build(config, cx),
        Config::Push(_) => Ok(Box::new(sluice_handlers::push::Push)),
        Config::Other(_) => Err(
            Refusal::new(format!("unknown handler `{}`", config.module()))
                .with_help("remove it, or serve this site with the server that has it"),
        ),
    }
}

/// The language that a proxy was configured in.
fn language(config: &ReverseProxy) -> Box<dyn Language + '_> {
    match &config.nginx {
        Some(nginx) => Box::new(NginxConf(nginx)),
        None => Box::new(Caddyfile),
    }
}
