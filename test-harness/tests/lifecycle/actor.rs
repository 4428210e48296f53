//! A process that does as it is told: listens, forks, executes itself anew, changes its name.
//!
//! It and all that it starts end when the test lets go of its output.

use portreeve_test_harness::machine::{as_user, python, spawn};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Its steps, from the arguments and then one a line. Each line is answered with `done`.
const PLAY: &str = r#"
import os,select,socket,sys
socks=[]
def linger():
    p=select.poll(); p.register(1,0)
    while not p.poll(): pass
    os._exit(0)
# In one piece: others have the same output.
def say(text): os.write(1,(text+'\n').encode())
def step(text):
    name,_,arg=text.partition('=')
    if name in ('listen','bind'):
        a,port,*o=arg.split(',')
        s=socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET)
        s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)
        if 'reuseport' in o: s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEPORT,1)
        if ':' in a: s.setsockopt(socket.IPPROTO_IPV6,socket.IPV6_V6ONLY,int('v6only' in o))
        s.bind((a,int(port)))
        if name=='listen': s.listen()
        s.set_inheritable(True); socks.append(s)
    elif name=='close':
        for s in socks: s.close()
        socks.clear()
    elif name=='setsid': os.setsid()
    elif name=='name': open('/proc/self/comm','wb').write(bytes.fromhex(arg))
    elif name=='child':
        r,w=os.pipe()
        pid=os.fork()
        if pid==0:
            os.close(r)
            for t in filter(None,arg.split(';')): step(t)
            os.write(w,b'x'); os.close(w); linger()
        os.close(w)
        assert os.read(r,1)==b'x'
        os.close(r); say(f'pid {pid}')
    elif name=='reap': os.wait()
    elif name=='reexec':
        os.execv(sys.executable,[sys.executable,'-c',os.environ['PLAY'],*filter(None,arg.split(';'))])
    elif name=='exit': os._exit(0)
    else: raise ValueError(text)
for t in sys.argv[1:]: step(t)
say(f'ready {os.getpid()}')
for line in sys.stdin:
    step(line.strip()); say('done')
linger()
"#;

/// A started actor, ended when dropped.
#[derive(Debug)]
pub(crate) struct Actor {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The pid of the actor itself, which may be below the process that was started.
    pub(crate) server: u32,
}

impl Actor {
    /// Starts one in `directory` and lets it take these steps.
    pub(crate) fn start(directory: &Path, steps: &[&str]) -> Actor {
        Actor::run(as_user(python()), directory, steps)
    }

    /// Starts one as this process' own user, whoever the daemon's is.
    pub(crate) fn start_as_us(directory: &Path, steps: &[&str]) -> Actor {
        Actor::run(Command::new(python()), directory, steps)
    }

    /// Runs a shell script in which `"$@"` is the command that becomes the actor.
    pub(crate) fn in_shell(directory: &Path, script: &str, steps: &[&str]) -> Actor {
        let mut shell = as_user("sh");
        shell.args(["-c", script, "sh", python()]);
        Actor::run(shell, directory, steps)
    }

    /// Starts it by a command that ends in python.
    pub(crate) fn run(mut command: Command, directory: &Path, steps: &[&str]) -> Actor {
        command.args(["-c", PLAY]).args(steps).env("PLAY", PLAY).current_dir(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = spawn(&mut command).expect("the actor's program can be run");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let mut actor = Actor { process, input, output, server: 0 };
        let last = actor.answer().pop().expect("a line");
        let pid = last.strip_prefix("ready ").and_then(|pid| pid.parse().ok());
        actor.server = pid.unwrap_or_else(|| panic!("no pid: {last:?}"));
        actor
    }

    /// Serves `127.0.0.1:port` from `directory`.
    pub(crate) fn serve(directory: &Path, port: u16) -> Actor {
        Actor::start(directory, &[&format!("listen=127.0.0.1,{port}")])
    }

    /// The process that was started: the actor, or the shell around it.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Lets it take a step; what it says meanwhile.
    pub(crate) fn tell(&mut self, step: &str) -> Vec<String> {
        writeln!(self.input.as_mut().expect("not ended"), "{step}").expect("the actor listens");
        self.answer()
    }

    /// Lets it fork a child that takes these steps and stays; its pid.
    pub(crate) fn child(&mut self, steps: &str) -> u32 {
        let said = self.tell(&format!("child={steps}"));
        said[0].strip_prefix("pid ").and_then(|pid| pid.parse().ok()).expect("a pid")
    }

    /// Waits until another one that has the same output is ready.
    pub(crate) fn hear(&mut self) {
        self.answer();
    }

    /// The lines up to the one that says that it is done, that one included.
    fn answer(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("text");
            assert!(read > 0, "the actor ended after {lines:?}");
            lines.push(line.trim().to_owned());
            if line.starts_with("done") || line.starts_with("ready") {
                return lines;
            }
        }
    }

    /// Kills the process that was started, and waits for it.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("a killed child ends");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
