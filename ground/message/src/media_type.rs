//! Media types of files by file name extension. File contents are never inspected: with content sniffing, a user who
//! can upload a picture could publish a page.

use crate::path;

/// The media type of the file called `name`, with a charset if it is text. `None` for an unknown extension; the
/// response is then sent without `Content-Type`, as in Caddy.
pub fn of_name(name: &[u8]) -> Option<&'static str> {
    of_extension(path::extension(name)?)
}

/// The media type for a file name extension without its dot, in any case.
pub fn of_extension(extension: &[u8]) -> Option<&'static str> {
    let mut lower = [0; EXTENSION_BYTES_MAX];
    let lower = lower.get_mut(..extension.len())?;
    lower.copy_from_slice(extension);
    lower.make_ascii_lowercase();
    let at = TABLE
        .binary_search_by(|(known, _)| known.cmp(&&*lower))
        .ok()?;
    Some(TABLE[at].1)
}

/// All extensions with their media types, sorted by extension.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let text = |bytes| core::str::from_utf8(bytes).expect("extensions are ASCII");
    TABLE
        .iter()
        .map(move |(extension, media_type)| (text(extension), *media_type))
}

/// The longest extension of [`TABLE`].
const EXTENSION_BYTES_MAX: usize = 11;

/// What Go's standard library and the tables of common systems say, so what users of Caddy see; where systems
/// differ, the type registered with IANA. Unlike Caddy's it does not depend on files of the system that runs it.
/// Sorted by extension.
const TABLE: &[(&[u8], &str)] = &[
    (b"3g2", "video/3gpp2"),
    (b"3gp", "video/3gpp"),
    (b"7z", "application/x-7z-compressed"),
    (b"aac", "audio/aac"),
    (b"ai", "application/postscript"),
    (b"aif", "audio/x-aiff"),
    (b"aiff", "audio/x-aiff"),
    (b"apk", "application/vnd.android.package-archive"),
    (b"apng", "image/apng"),
    (b"asc", "text/plain; charset=utf-8"),
    (b"atom", "application/atom+xml"),
    (b"au", "audio/basic"),
    (b"avi", "video/x-msvideo"),
    (b"avif", "image/avif"),
    (b"avifs", "image/avif"),
    (b"azw", "application/vnd.amazon.ebook"),
    (b"bib", "text/x-bibtex; charset=utf-8"),
    (b"bin", "application/octet-stream"),
    (b"bmp", "image/bmp"),
    (b"bz2", "application/x-bzip"),
    (b"c", "text/x-csrc; charset=utf-8"),
    (b"cab", "application/vnd.ms-cab-compressed"),
    (b"cer", "application/pkix-cert"),
    (b"cjs", "text/javascript; charset=utf-8"),
    (b"conf", "text/plain; charset=utf-8"),
    (b"cpp", "text/x-c++src; charset=utf-8"),
    (b"crl", "application/pkix-crl"),
    (b"crt", "application/x-x509-ca-cert"),
    (b"css", "text/css; charset=utf-8"),
    (b"csv", "text/csv; charset=utf-8"),
    (b"cur", "image/x-win-bitmap"),
    (b"deb", "application/vnd.debian.binary-package"),
    (b"der", "application/x-x509-ca-cert"),
    (b"diff", "text/x-patch; charset=utf-8"),
    (b"djvu", "image/vnd.djvu"),
    (b"dmg", "application/x-apple-diskimage"),
    (b"doc", "application/msword"),
    (b"docm", "application/vnd.ms-word.document.macroenabled.12"),
    (
        b"docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    (b"dot", "application/msword"),
    (
        b"dotx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.template",
    ),
    (b"dwg", "image/vnd.dwg"),
    (b"dxf", "image/vnd.dxf"),
    (b"eml", "message/rfc822"),
    (b"eot", "application/vnd.ms-fontobject"),
    (b"eps", "application/postscript"),
    (b"epub", "application/epub+zip"),
    (b"exe", "application/octet-stream"),
    (b"fits", "application/fits"),
    (b"flac", "audio/flac"),
    (b"flv", "video/x-flv"),
    (b"geojson", "application/geo+json"),
    (b"gif", "image/gif"),
    (b"glb", "model/gltf-binary"),
    (b"gltf", "model/gltf+json"),
    (b"go", "text/x-go; charset=utf-8"),
    (b"gpg", "application/pgp-encrypted"),
    (b"gpx", "application/gpx+xml"),
    (b"gz", "application/gzip"),
    (b"h", "text/x-chdr; charset=utf-8"),
    (b"heic", "image/heic"),
    (b"heif", "image/heif"),
    (b"hpp", "text/x-c++hdr; charset=utf-8"),
    (b"htm", "text/html; charset=utf-8"),
    (b"html", "text/html; charset=utf-8"),
    (b"ico", "image/vnd.microsoft.icon"),
    (b"ics", "text/calendar; charset=utf-8"),
    (b"img", "application/octet-stream"),
    (b"ini", "text/plain; charset=utf-8"),
    (b"iso", "application/x-cd-image"),
    (b"jar", "application/java-archive"),
    (b"java", "text/x-java; charset=utf-8"),
    (b"jfif", "image/jpeg"),
    (b"jnlp", "application/x-java-jnlp-file"),
    (b"jp2", "image/jp2"),
    (b"jpeg", "image/jpeg"),
    (b"jpg", "image/jpeg"),
    (b"js", "text/javascript; charset=utf-8"),
    (b"json", "application/json"),
    (b"jsonld", "application/ld+json"),
    (b"jsx", "text/javascript; charset=utf-8"),
    (b"jxl", "image/jxl"),
    (b"key", "application/vnd.apple.keynote"),
    (b"kml", "application/vnd.google-earth.kml+xml"),
    (b"kmz", "application/vnd.google-earth.kmz"),
    (b"ktx", "image/ktx"),
    (b"ktx2", "image/ktx2"),
    (b"less", "text/less; charset=utf-8"),
    (b"log", "text/plain; charset=utf-8"),
    (b"lua", "text/x-lua; charset=utf-8"),
    (b"lz", "application/x-lzip"),
    (b"lz4", "application/x-lz4"),
    (b"m2ts", "video/mp2t"),
    (b"m3u", "audio/x-mpegurl"),
    (b"m3u8", "application/vnd.apple.mpegurl"),
    (b"m4a", "audio/mp4"),
    (b"m4s", "video/iso.segment"),
    (b"m4v", "video/mp4"),
    (b"map", "application/json"),
    (b"markdown", "text/markdown; charset=utf-8"),
    (b"mbox", "application/mbox"),
    (b"md", "text/markdown; charset=utf-8"),
    (b"mht", "message/rfc822"),
    (b"mhtml", "message/rfc822"),
    (b"mid", "audio/midi"),
    (b"midi", "audio/midi"),
    (b"mjs", "text/javascript; charset=utf-8"),
    (b"mka", "audio/x-matroska"),
    (b"mkv", "video/x-matroska"),
    (b"mobi", "application/x-mobipocket-ebook"),
    (b"mov", "video/quicktime"),
    (b"mp3", "audio/mpeg"),
    (b"mp4", "video/mp4"),
    (b"mpd", "application/dash+xml"),
    (b"mpeg", "video/mpeg"),
    (b"mpg", "video/mpeg"),
    (b"msi", "application/x-msi"),
    (b"n3", "text/n3; charset=utf-8"),
    (b"ndjson", "application/x-ndjson"),
    (b"nt", "application/n-triples"),
    (b"numbers", "application/vnd.apple.numbers"),
    (b"obj", "model/obj"),
    (b"odb", "application/vnd.oasis.opendocument.base"),
    (b"odg", "application/vnd.oasis.opendocument.graphics"),
    (b"odp", "application/vnd.oasis.opendocument.presentation"),
    (b"ods", "application/vnd.oasis.opendocument.spreadsheet"),
    (b"odt", "application/vnd.oasis.opendocument.text"),
    (b"oga", "audio/ogg"),
    (b"ogg", "audio/ogg"),
    (b"ogv", "video/ogg"),
    (b"ogx", "application/ogg"),
    (b"opf", "application/oebps-package+xml"),
    (b"opus", "audio/ogg"),
    (b"otf", "font/otf"),
    (b"owl", "application/rdf+xml"),
    (b"p10", "application/pkcs10"),
    (b"p12", "application/x-pkcs12"),
    (b"p7c", "application/pkcs7-mime"),
    (b"p7m", "application/pkcs7-mime"),
    (b"p7s", "application/pkcs7-signature"),
    (b"pages", "application/vnd.apple.pages"),
    (b"patch", "text/x-patch; charset=utf-8"),
    (b"pdf", "application/pdf"),
    (b"pem", "application/x-x509-ca-cert"),
    (b"pfx", "application/x-pkcs12"),
    (b"php", "application/x-php"),
    (b"pl", "application/x-perl"),
    (b"pls", "audio/x-scpls"),
    (b"png", "image/png"),
    (b"pot", "application/vnd.ms-powerpoint"),
    (b"pps", "application/vnd.ms-powerpoint"),
    (b"ppt", "application/vnd.ms-powerpoint"),
    (
        b"pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    (b"ps", "application/postscript"),
    (b"psd", "image/vnd.adobe.photoshop"),
    (b"py", "text/x-python; charset=utf-8"),
    (b"qt", "video/quicktime"),
    (b"rar", "application/vnd.rar"),
    (b"rb", "application/x-ruby"),
    (b"rdf", "application/rdf+xml"),
    (b"rpm", "application/x-rpm"),
    (b"rs", "text/rust; charset=utf-8"),
    (b"rss", "application/rss+xml"),
    (b"rtf", "application/rtf"),
    (b"scss", "text/x-scss; charset=utf-8"),
    (b"sh", "application/x-shellscript"),
    (b"shtml", "text/html; charset=utf-8"),
    (b"sig", "application/pgp-signature"),
    (b"smil", "application/smil+xml"),
    (b"so", "application/x-sharedlib"),
    (b"sql", "application/sql"),
    (b"srt", "application/x-subrip"),
    (b"srx", "application/sparql-results+xml"),
    (b"stl", "model/stl"),
    (b"svg", "image/svg+xml"),
    (b"svgz", "image/svg+xml"),
    (b"swf", "application/vnd.adobe.flash.movie"),
    (b"tar", "application/x-tar"),
    (b"tcl", "text/tcl; charset=utf-8"),
    (b"tex", "text/x-tex; charset=utf-8"),
    (b"text", "text/plain; charset=utf-8"),
    (b"tgz", "application/gzip"),
    (b"tif", "image/tiff"),
    (b"tiff", "image/tiff"),
    (b"toml", "application/toml"),
    (b"torrent", "application/x-bittorrent"),
    (b"ts", "video/mp2t"),
    (b"tsv", "text/tab-separated-values; charset=utf-8"),
    (b"ttc", "font/collection"),
    (b"ttf", "font/ttf"),
    (b"ttl", "text/turtle; charset=utf-8"),
    (b"txt", "text/plain; charset=utf-8"),
    (b"usdz", "model/vnd.usdz+zip"),
    (b"vcard", "text/vcard; charset=utf-8"),
    (b"vcf", "text/vcard; charset=utf-8"),
    (b"vsd", "application/vnd.visio"),
    (b"vtt", "text/vtt; charset=utf-8"),
    (b"war", "application/java-archive"),
    (b"wasm", "application/wasm"),
    (b"wav", "audio/wav"),
    (b"weba", "audio/webm"),
    (b"webm", "video/webm"),
    (b"webmanifest", "application/manifest+json"),
    (b"webp", "image/webp"),
    (b"wgsl", "text/wgsl; charset=utf-8"),
    (b"wma", "audio/x-ms-wma"),
    (b"wmv", "video/x-ms-wmv"),
    (b"woff", "font/woff"),
    (b"woff2", "font/woff2"),
    (b"xbm", "image/x-xbitmap"),
    (b"xht", "application/xhtml+xml"),
    (b"xhtml", "application/xhtml+xml"),
    (b"xls", "application/vnd.ms-excel"),
    (b"xlsm", "application/vnd.ms-excel.sheet.macroenabled.12"),
    (
        b"xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    (b"xml", "text/xml; charset=utf-8"),
    (b"xpi", "application/x-xpinstall"),
    (b"xpm", "image/x-xpixmap"),
    (b"xsl", "text/xml; charset=utf-8"),
    (b"xslt", "application/xslt+xml"),
    (b"xspf", "application/xspf+xml"),
    (b"xz", "application/x-xz"),
    (b"yaml", "application/yaml"),
    (b"yml", "application/yaml"),
    (b"z", "application/x-compress"),
    (b"zip", "application/zip"),
    (b"zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_fits_its_limit() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(
            TABLE.iter().map(|(extension, _)| extension.len()).max(),
            Some(EXTENSION_BYTES_MAX)
        );
        for (extension, media_type) in TABLE {
            assert_eq!(of_extension(extension), Some(*media_type));
            assert_eq!(
                media_type.starts_with("text/"),
                media_type.ends_with("; charset=utf-8")
            );
        }
    }

    #[test]
    fn names_are_looked_up_by_their_last_extension() {
        assert_eq!(
            of_name(b"/a.b/index.HTML"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(of_name(b"x.tar.gz"), Some("application/gzip"));
        assert_eq!(of_name(b"app.mjs"), Some("text/javascript; charset=utf-8"));
        assert_eq!(of_name(b"x.unknown"), None);
        assert_eq!(of_name(b"x.a-very-long-extension"), None);
        assert_eq!(of_name(b"x."), None);
        assert_eq!(of_name(b"/a.html/x"), None);
    }
}
