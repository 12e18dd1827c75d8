#!/bin/sh
# Overload control on this machine: an upstream that serves 400 requests a second (8 at a time, 20 ms each) behind sluice with
# `overload adaptive`, sluice without it, and nginx and Caddy if they are there. Each gets 0.25, 2, 3 and 5 times what the
# upstream can serve, open loop, and after each 0.25 times again two seconds later. Prints the successful requests per second in
# the window, their latency, and the failed ones.
#
# Usage: lab/scripts/overload.sh [FOLDER OF sluice AND sluice-lab [CADDY]] (default: target/release)
set -eu
bin=$(realpath "${1:-target/release}")
caddy=${2:-$(command -v caddy || true)}
folder=$(mktemp -d)
cd "$folder"
started=
trap 'kill $started; rm -rf "$folder"' EXIT

start() { # command...
	"$@" >>servers.log 2>&1 &
	started="$started $!"
}

cat > Caddyfile <<'END'
{
	admin off
}
http://:28080 {
	overload adaptive {
		target_latency 100ms
	}
	reverse_proxy 127.0.0.1:28081
}
http://:28082 {
	reverse_proxy 127.0.0.1:28081
}
END
cat > caddy.conf <<'END'
{
	admin off
}
http://:28084 {
	reverse_proxy 127.0.0.1:28081
}
END
cat > nginx.conf <<END
daemon off; pid $folder/nginx.pid; error_log $folder/nginx.log crit; worker_processes 2; worker_rlimit_nofile 20000;
events { worker_connections 9000; }
http {
	access_log off; client_body_temp_path $folder/b; proxy_temp_path $folder/p; fastcgi_temp_path $folder/f;
	uwsgi_temp_path $folder/u; scgi_temp_path $folder/s;
	upstream app { server 127.0.0.1:28081; keepalive 500; }
	server { listen 28083; location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; } }
}
END
start "$bin/sluice-lab" serve -l 127.0.0.1:28081 respond --delay 20ms --concurrency 8
start "$bin/sluice" run --config Caddyfile
targets="adaptive:28080 without:28082"
if command -v nginx >/dev/null; then
	start nginx -c "$folder/nginx.conf"
	targets="$targets nginx:28083"
fi
if [ -n "$caddy" ]; then
	start "$caddy" run --config caddy.conf --adapter caddyfile
	targets="$targets caddy:28084"
fi
sleep 2

hit() { # name, port, rate, seconds
	"$bin/sluice-lab" hit "http://127.0.0.1:$2/" -r "$3" -d "$4s" -c 1000 --poisson --expect-status 200 --timeout 10s \
		--json "$1.json" >"$1.log" 2>&1 || true
	python3 - "$1" "$3" "$4" <<'END'
import json, sys
name, rate, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
load = json.load(open(name + ".json"))["cells"][0]["blocks"][0]["load"]
total = load["latency"]["total"]
at = {p: ns / 1e6 for p, ns in total.get("percentiles", [])}
p99 = at.get(99.0, total["max_ns"] / 1e6)
failed = sum(failure.get("count", 0) for failure in load["failures"])
good = load["ended_ok"] / seconds
print(f"{name:20} {rate:>5}/s: {good:6.1f} successful/s, p50 {at.get(50.0, 0):7.1f} ms, p99 {p99:7.1f} ms, {failed} failed")
END
}

for target in $targets; do
	name=${target%:*} port=${target#*:}
	hit "$name-light" "$port" 100 5
	for factor in 2 3 5; do
		hit "$name-${factor}x" "$port" $((400 * factor)) 15
		sleep 2
		hit "$name-after-${factor}x" "$port" 100 3
	done
done
