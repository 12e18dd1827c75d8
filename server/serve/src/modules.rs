//! The modules of the server: which function builds the handlers of each. The builder of the pipeline calls it for
//! each handler of a configuration.

use sluice_model::proxy::ReverseProxy;
use sluice_model::{Dialect, Handler as Config};

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
    builder: &mut Builder<'m>,
) -> Result<Vec<Box<dyn Handler>>, Refusal> {
    match config {
        Config::Nginx(nginx) => sluice_server_nginx::build(nginx, builder),
        // Its own handlers read the body.
        Config::Subroute(_) => Ok(vec![one(config, builder)?]),
        _ if builder.needs_body(config) => Ok(vec![sluice_handlers::body_text::before(one(
            config, builder,
        )?)]),
        _ => Ok(vec![one(config, builder)?]),
    }
}

fn one<'m>(config: &'m Config, builder: &mut Builder<'m>) -> Built {
    match config {
        Config::AcmeServer(config) => sluice_handlers::acme_server::build(config, builder),
        Config::Authentication(config) => sluice_handlers::authentication::build(config, builder),
        Config::Cache(config) => sluice_proxy::cache::build_of_routes(config, builder),
        Config::Encode(config) => sluice_handlers::encode::build(config, builder),
        Config::Error(config) => sluice_handlers::error::build(config, builder),
        Config::FileServer(config) => sluice_handlers::file_server::build(config, builder),
        Config::Headers(config) => sluice_handlers::headers::build(config, builder),
        Config::InFlight(config) => sluice_handlers::in_flight::build(config, builder),
        Config::Invoke(config) => sluice_handlers::subroute::build_invoke(config, builder),
        Config::LogAppend(config) => sluice_handlers::log_append::build(config, builder),
        Config::Map(config) => sluice_handlers::map::build(config, builder),
        Config::Metrics(config) => Ok(sluice_handlers::metrics::build(config, builder)),
        Config::Python(config) => sluice_proxy::python::build(config, builder),
        Config::RateLimit(config) => match config.dialect {
            Dialect::Nginx => sluice_server_nginx::limit_req::build(config, builder),
            Dialect::Caddy => sluice_handlers::rate_limit::build(config, builder),
        },
        Config::RequestBody(config) => sluice_handlers::request_body::build(config, builder),
        Config::ReverseProxy(config) => {
            sluice_proxy::reverse_proxy::build(config, &*language(config), builder)
        }
        Config::Rewrite(config) => sluice_handlers::rewrite::build(config, builder),
        Config::StaticResponse(config) => sluice_handlers::static_response::build(config, builder),
        Config::Subroute(config) => Ok(sluice_handlers::subroute::build(config, builder)),
        Config::Templates(config) => sluice_handlers::templates::build(config, builder),
        Config::Timeouts(config) => Ok(sluice_handlers::timeouts::build(config, builder)),
        Config::Tracing(config) => sluice_handlers::tracing::build(config, builder),
        Config::Vars(config) => sluice_handlers::vars::build(config, builder),
        Config::CopyResponse(config) => sluice_handlers::copy_response::build(config, builder),
        Config::CopyResponseHeaders(config) => {
            Ok(sluice_handlers::copy_response::build_headers(config))
        }
        Config::Intercept(config) => sluice_handlers::intercept::build(config, builder),
        // Expands to two handlers; built above.
        Config::Nginx(_) => Err(Refusal::new("`nginx` stands alone in its route")),
        Config::NginxAccess(config) => sluice_server_nginx::access::build(config, builder),
        Config::NginxAddition(config) => sluice_server_nginx::addition::build(config, builder),
        Config::NginxCache(config) => {
            sluice_proxy::cache::build(config, &*language(&config.origin), builder)
        }
        Config::NginxCharset(config) => sluice_server_nginx::charset::build(config, builder),
        Config::NginxConnections(config) => sluice_server_nginx::limit_conn::build(config, builder),
        Config::NginxContent(config) => sluice_server_nginx::content::build(config, builder),
        Config::NginxRanges(config) => Ok(sluice_server_nginx::ranges::build(config)),
        Config::NginxRate(config) => sluice_server_nginx::rate::build(config, builder),
        Config::NginxRealIp(config) => sluice_server_nginx::realip::build(config),
        Config::NginxExpires(config) => sluice_server_nginx::expires::build(config, builder),
        Config::NginxFiles(config) => sluice_server_nginx::files::build(config, builder),
        Config::NginxGunzip(config) => sluice_server_nginx::gunzip::build(config, builder),
        Config::NginxGzip(config) => sluice_server_nginx::gzip::build(config, builder),
        Config::NginxLog(config) => sluice_server_nginx::log::build(config, builder),
        Config::NginxBodyFile(config) => sluice_server_nginx::body_file::build(config, builder),
        Config::NginxPostAction(config) => sluice_server_nginx::post_action::build(config, builder),
        Config::NginxMirror(config) => sluice_server_nginx::mirror::build(config, builder),
        Config::NginxPass(config) => sluice_server_nginx::pass::build(config, builder),
        Config::NginxSlice(config) => sluice_server_nginx::slice::build(config, builder),
        Config::NginxSsi(config) => sluice_server_nginx::ssi::build(config, builder),
        Config::NginxSub(config) => sluice_server_nginx::substitute::build(config, builder),
        Config::NginxTrailers(config) => sluice_server_nginx::trailers::build(config, builder),
        Config::NginxTryFiles(config) => sluice_server_nginx::try_files::build(config, builder),
        Config::NginxUnchunked(_) => Ok(sluice_server_nginx::unchunked::build()),
        Config::NginxUserId(config) => sluice_server_nginx::user_id::build(config, builder),
        Config::Overload(config) => sluice_handlers::overload::build(config, builder),
        Config::Push(_) => Ok(Box::new(sluice_handlers::push::Push)),
        Config::Other(_) => Err(
            Refusal::new(format!("unknown handler `{}`", config.module()))
                .with_help("remove it, or serve this site with the server that has it"),
        ),
    }
}

/// The language that a proxy was configured in.
fn language(config: &ReverseProxy) -> Box<dyn Language + '_> {
    match &config.dialect {
        Some(nginx) => Box::new(NginxConf(nginx)),
        None => Box::new(Caddyfile),
    }
}
