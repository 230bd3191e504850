//! Answers of servers that are slow, endless, cut off or no web servers at all.

use std::collections::BTreeMap;

use grid_types::decl::{ParamValue, Params};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Url, ask, contains, follow, headers, request};
use crate::allow::Hosts;

#[test]
fn only_plain_urls_are_read() {
    let url = |text: &str| Url::parse(text).map(|url| url.to_string());
    assert_eq!(url("http://a").as_deref(), Ok("http://a/"));
    assert_eq!(url("http://a:80/x?y=1").as_deref(), Ok("http://a/x?y=1"));
    assert_eq!(url("http://[::1]:8080?q").as_deref(), Ok("http://[::1]:8080/?q"));
    for bad in [
        "https://a",
        "file:///etc/passwd",
        "ftp://a",
        "//a",
        "a",
        "http://",
        "http://:80",
        "http://a:x",
        "http://a:99999",
        "http://u@a",
        "http://a\\@b",
        "http://a/ b",
        "http://a/\r\nX: y",
        "http://ä",
        "http://a#b",
        "http://::1",
        "HTTP://a",
    ] {
        assert!(url(bad).is_err(), "{bad}");
    }
    let here = Url::parse("http://a:1/x").unwrap();
    assert_eq!(here.join("/y").unwrap().to_string(), "http://a:1/y");
    assert_eq!(here.join("http://b/").unwrap().to_string(), "http://b/");
    for bad in ["//b/", "file:///etc", "https://b/", "y", "/a b"] {
        assert!(here.join(bad).is_err(), "{bad}");
    }
}

#[test]
fn no_header_begins_another_line() {
    let given = |name: &str, value: &str| -> Params {
        [("headers".to_owned(), ParamValue::TextMap([(name.to_owned(), value.to_owned())].into()))].into()
    };
    for (name, value) in [
        ("X", "a\r\nY: b"),
        ("X", "a\nb"),
        ("Content-Length", "1"),
        ("transfer-encoding", "chunked"),
        ("Connection", "keep-alive"),
    ] {
        assert!(headers(&given(name, value)).is_err(), "{name}: {value:?}");
    }
    let own = headers(&given("host", "other")).unwrap();
    let text = request(&Url::parse("http://a:8080/x").unwrap(), &own);
    assert_eq!(text, "GET /x HTTP/1.0\r\nAccept: */*\r\nUser-Agent: grid\r\nhost: other\r\nConnection: close\r\n\r\n");
}

/// What a server does after its answer.
#[derive(PartialEq)]
enum Then {
    Closes,
    Waits,
    Repeats,
}

/// Answers one connection with these bytes.
async fn served(answer: &'static [u8], then: Then) -> Url {
    let (url, _) = server(answer.to_vec(), then).await;
    url
}

/// The same, and what it was sent.
async fn server(answer: Vec<u8>, then: Then) -> (Url, tokio::task::JoinHandle<String>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let count = stream.read(&mut request).await.unwrap_or(0);
        while stream.write_all(&answer).await.is_ok() && then == Then::Repeats {}
        if then == Then::Waits {
            let _ = stream.read(&mut [0; 1]).await;
        }
        String::from_utf8_lossy(&request[..count]).into_owned()
    });
    (Url { host: "127.0.0.1".to_owned(), port, path: "/".to_owned() }, asked)
}

#[tokio::test]
async fn answers_are_read_to_their_end_and_never_beyond_the_limit() {
    let none = BTreeMap::new();
    let url = served(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", Then::Waits).await;
    assert_eq!(ask(&url, &none).await.map(|answer| (answer.status, answer.body)), Ok((204, Vec::new())));
    let url = served(b"HTTP/1.0 200 OK\r\n\r\nhello", Then::Closes).await;
    assert_eq!(ask(&url, &none).await.map(|answer| answer.body), Ok(b"hello".to_vec()));
    let url = served(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello, more", Then::Waits).await;
    assert_eq!(ask(&url, &none).await.map(|answer| answer.body), Ok(b"hello".to_vec()));
    let url =
        served(b"HTTP/1.1 200 OK\r\n\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", Then::Repeats)
            .await;
    assert_eq!(ask(&url, &none).await.map(|answer| answer.body.len()), Ok(super::BODY_BYTES));
    let url = served(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Then::Waits).await;
    assert_eq!(ask(&url, &none).await.map(|answer| (answer.status, answer.body)), Ok((304, Vec::new())));
    let url = served(b"HTTP/1.1 200 OK\r\nLength: 1\r\nCONTENT-LENGTH : 5\r\n\r\nhel", Then::Closes).await;
    assert_eq!(ask(&url, &none).await, Err("the answer broke off after 3 of 5 bytes".to_owned()));
    for bad in [&b"SSH-2.0-OpenSSH\r\n\r\n"[..], b"", b"HTTP/1.1 2000 x\r\n\r\n", b"HTTP/1.1 200 OK\r\n"] {
        let url = served(bad, Then::Closes).await;
        assert!(ask(&url, &none).await.is_err(), "{bad:?}");
    }
    let url = served(b"junkjunkjunkjunkjunkjunkjunkjunk", Then::Repeats).await;
    assert!(ask(&url, &none).await.is_err(), "a head without an end");
}

#[tokio::test]
async fn headers_are_sent_to_the_first_server_only() {
    let (last, last_asked) = server(b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec(), Then::Closes).await;
    let elsewhere = format!("HTTP/1.1 302 Found\r\nLocation: {last}\r\n\r\n");
    let (first, first_asked) = server(elsewhere.into_bytes(), Then::Closes).await;
    let own = BTreeMap::from([("Authorization".to_owned(), "Bearer secret".to_owned())]);
    let (url, answer) = follow(first, &own, 1, &Hosts::new(&["127.0.0.1".to_owned()])).await.unwrap();
    assert_eq!((url.port, answer.body.as_slice()), (last.port, &b"hello"[..]));
    assert!(first_asked.await.unwrap().contains("Bearer secret"));
    let asked = last_asked.await.unwrap();
    assert!(asked.starts_with("GET / HTTP/1.0\r\n") && !asked.contains("secret"), "{asked}");
}

#[test]
fn a_text_is_found_in_a_body_wherever_it_is() {
    for (text, want) in [("", true), ("ab", true), ("abc", true), ("c", true), ("abcd", false), ("ca", false)] {
        assert_eq!(contains(b"aababc", text.as_bytes()), want, "{text}");
    }
}
