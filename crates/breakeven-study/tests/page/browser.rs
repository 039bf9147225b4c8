//! A headless Chromium that is driven through the pipe which it offers to debuggers: JSON, ended by zero bytes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_mins(1);
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// How a page is looked at.
#[derive(Clone, Copy)]
pub struct View {
    pub width: u32,
    pub is_dark: bool,
    pub runs_scripts: bool,
}

/// A running browser with one page at a time.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    calls: u64,
    session: Option<String>,
    folder: PathBuf,
    /// Errors of the page's program and requests that it made, since it was opened.
    pub complaints: Vec<String>,
}

impl Browser {
    /// Starts one that keeps its files in a folder `name`; without Chromium the test fails, since nobody would notice that it was skipped.
    pub fn start(name: &str) -> Browser {
        let program = PROGRAMS
            .into_iter()
            .find(|program| {
                Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
            })
            .expect("a Chromium to look at the page with; on Debian: apt-get install --no-install-recommends chromium");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).expect("the target folder can be written");
        // Chromium reads commands from file 3 and answers on file 4.
        let script = "exec \"$0\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run \
             --remote-debugging-pipe --user-data-dir=\"$1\" about:blank 3<&0 4>&1 1>&2";
        let mut child = Command::new("sh")
            .args(["-c", script, program])
            .arg(folder.join("profile"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let input = child.stdin.take().expect("piped");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while output.read_until(0, &mut bytes).is_ok_and(|count| count > 0) {
                bytes.pop();
                let message = serde_json::from_slice(&bytes).expect("Chromium speaks JSON");
                if sender.send(message).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        Browser { child, input, messages, calls: 0, session: None, folder, complaints: Vec::new() }
    }

    /// Shows `html` from a file, in a new page.
    pub fn open(&mut self, html: &str, address_end: &str, view: View) {
        self.close_page();
        let file = self.folder.join("page.html");
        std::fs::write(&file, html).expect("the target folder can be written");
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &attached);
        self.session = Some(session["sessionId"].as_str().expect("a session").into());
        for domain in ["Runtime.enable", "Log.enable", "Network.enable", "Page.enable"] {
            self.call(domain, &json!({}));
        }
        self.look(view);
        self.complaints.clear();
        self.call("Page.navigate", &json!({ "url": format!("file://{}{address_end}", file.display()) }));
        while self.receive()["method"] != "Page.loadEventFired" {}
    }

    /// Changes how the open page is looked at.
    pub fn look(&mut self, view: View) {
        let metrics = json!({ "width": view.width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = if view.is_dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
        self.call("Emulation.setScriptExecutionDisabled", &json!({ "value": !view.runs_scripts }));
    }

    /// The value of a JavaScript expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Presses and lets go a key of the keyboard.
    pub fn press(&mut self, key: &str, code: u32) {
        let text = if key == " " { json!(" ") } else { Value::Null };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_null() {
                event["text"] = text.clone();
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Puts the pointer at a place of the window.
    pub fn point_at(&mut self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", &json!({ "type": "mouseMoved", "x": x, "y": y }));
    }

    /// A picture of the whole page, kept as `name` in the test's folder.
    pub fn picture(&mut self, name: &str) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }));
        self.keep(name, &answer["data"])
    }

    /// The page as it would be printed, kept as `name` in the test's folder.
    pub fn print(&mut self, name: &str) -> Vec<u8> {
        let paper = json!({ "printBackground": true, "paperWidth": 8.27, "paperHeight": 11.69 });
        let answer = self.call("Page.printToPDF", &paper);
        self.keep(name, &answer["data"])
    }

    fn keep(&self, name: &str, data: &Value) -> Vec<u8> {
        let bytes = from_base64(data.as_str().expect("base64"));
        std::fs::write(self.folder.join(name), &bytes).expect("the target folder can be written");
        bytes
    }

    fn close_page(&mut self) {
        if self.session.is_some() {
            self.call("Page.close", &json!({}));
            self.session = None;
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("Chromium listens");
        loop {
            let answer = self.receive();
            if answer["id"] == self.calls {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// The next message; what the page did wrong is kept.
    fn receive(&mut self) -> Value {
        let message = self.messages.recv_timeout(DEADLINE).expect("Chromium answers within a minute");
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.complaints.push(params["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled" | "Log.entryAdded") => self.complaints.push(params.to_string()),
            Some("Network.requestWillBeSent") if params["type"] != "Document" => {
                let address = params["request"]["url"].as_str().unwrap_or_default();
                if address != "data:," {
                    self.complaints.push(format!("asked for {address}"));
                }
            }
            _ => {}
        }
        message
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| alphabet.iter().position(|&known| known == byte));
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0u32, 0);
    for digit in digits {
        held = (held << 6 | digit as u32) & 0xFFFF;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}
