//! The MCP server: what is advertised, and one answer for each call.
//!
//! It speaks both eras of the protocol through rmcp, with no code for either: `server/discover` with metadata on
//! each request, and `initialize`. Listing and introducing itself touch neither the daemon nor the disk.
//! What a call does is the [`House`]'s; this module makes sure that it ends: by its answer, by a panic that is
//! caught, by the host's cancellation or by the bridge's end, each of them once.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use portreeve_registry::RequestId;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult,
    DiscoverResult, ErrorCode, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use crate::edge::closing::{Closing, Reason};

/// How long a host may keep the tool list and the introduction: they change only with the binary.
const FRESH_FOR_MS: u64 = 3_600_000;

/// The methods that this server answers; malformed parameters for one of them are -32602.
const METHODS: [&str; 5] = ["initialize", "ping", "server/discover", "tools/call", "tools/list"];

/// What the server serves: the tools, and what a call of one does.
pub trait House: Send + Sync + 'static {
    /// The tools to advertise, in the order in which hosts see them.
    fn tools(&self) -> &[Tool];

    /// What an agent should know before its first call; at most 2 KB.
    fn instructions(&self) -> &str;

    /// Answers one call. The future may be dropped at any await: then [`House::cut_short`] gives the answer.
    fn call(self: Arc<Self>, call: Arc<Call>) -> impl Future<Output = CallToolResult> + Send;

    /// Answers a call that did not come to its own end.
    fn cut_short(&self, call: &Call, why: Cut) -> CallToolResult;

    /// Accounts for a request that was refused with a JSON-RPC error before it became a call.
    fn refused(&self, refusal: &Refusal);
}

/// One accepted `tools/call`.
#[derive(Debug)]
pub struct Call {
    /// Our own id of this call; time-ordered.
    pub request_id: RequestId,
    /// The host's JSON-RPC id, as JSON. Never a key of ours.
    pub host_id: String,
    /// The tool's name; it is one of [`House::tools`].
    pub tool: String,
    /// The arguments as they came.
    pub arguments: JsonObject,
    /// The host's W3C trace parent.
    pub traceparent: Option<String>,
    /// How the host introduced itself.
    pub client: Option<Implementation>,
    /// How far the call has come, for the answer when it is cut short.
    pub progress: Progress,
}

/// How far a call has come.
#[derive(Debug, Default)]
pub struct Progress {
    sent: AtomicBool,
    receipt: OnceLock<String>,
}

impl Progress {
    /// From here on the daemon may have acted.
    pub fn mark_sent(&self) {
        self.sent.store(true, Ordering::Relaxed);
    }

    /// Whether the daemon may have acted.
    pub fn was_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    /// The receipt that this call executes.
    pub fn mark_receipt(&self, id: &str) {
        self.receipt.get_or_init(|| id.to_owned());
    }

    /// The receipt that this call executes, when it is an execute.
    pub fn receipt(&self) -> Option<&str> {
        self.receipt.get().map(String::as_str)
    }
}

/// Why a call did not come to its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The host took the request back; the answer is recorded and not sent.
    Cancelled,
    /// The bridge is ending and the call's grace is over.
    Closing(Reason),
    /// The handler panicked.
    Panicked,
}

/// A request that was refused with a JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// `tools/call` named a tool that isn't advertised.
    UnknownTool {
        /// The name, as the host sent it.
        name: String,
    },
    /// The parameters don't have the method's shape.
    MalformedParams {
        /// The method.
        method: String,
    },
}

/// The rmcp handler over a [`House`].
#[derive(Debug)]
pub struct Server<H> {
    house: Arc<H>,
    closing: Closing,
    version: &'static str,
}

impl<H: House> Server<H> {
    /// Serves `house` until `closing` says otherwise.
    pub fn new(house: Arc<H>, closing: Closing, version: &'static str) -> Self {
        Self { house, closing, version }
    }

    /// Runs one call in a task of its own: a panic ends that task only, and a call that is cut short is dropped.
    async fn run(&self, call: Arc<Call>, cancelled: impl Future<Output = ()>) -> CallToolResult {
        let mut task = tokio::spawn(self.house.clone().call(call.clone()));
        let why = tokio::select! {
            biased;
            outcome = &mut task => match outcome {
                Ok(result) => return result,
                Err(_) => Cut::Panicked,
            },
            () = cancelled => Cut::Cancelled,
            reason = self.closing.grace_over() => Cut::Closing(reason),
        };
        task.abort();
        self.house.cut_short(&call, why)
    }
}

impl<H: House> ServerHandler for Server<H> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let server = Implementation::new("portreeve", self.version).with_title("PortReeve");
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(self.house.instructions())
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info())
            .with_ttl_ms(FRESH_FOR_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.house.tools().to_vec())
            .with_ttl_ms(FRESH_FOR_MS)
            .with_cache_scope(CacheScope::Public))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.house.tools().iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = params.name.into_owned();
        if !self.house.tools().iter().any(|advertised| advertised.name == tool) {
            self.house.refused(&Refusal::UnknownTool { name: tool.clone() });
            let shown: String = tool.chars().take(80).collect();
            return Err(ErrorData::invalid_params(
                format!("unknown tool {shown:?}; call tools/list for the tools of this server"),
                None,
            ));
        }
        let call = Arc::new(Call {
            request_id: RequestId::fresh(),
            host_id: context.id.clone().into_json_value().to_string(),
            tool,
            arguments: params.arguments.unwrap_or_default(),
            traceparent: context.meta.get_traceparent().map(str::to_owned),
            client: context.client_info(),
            progress: Progress::default(),
        });
        Ok(self.run(call, context.ct.cancelled()).await.into())
    }

    /// rmcp hands over here whatever it can't parse as one of the methods it knows.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        if !METHODS.contains(&method.as_str()) {
            let shown: String = method.chars().take(80).collect();
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("unknown method {shown:?}"),
                None,
            ));
        }
        let refusal = Refusal::MalformedParams { method };
        self.house.refused(&refusal);
        let Refusal::MalformedParams { method } = refusal else { unreachable!("made above") };
        Err(ErrorData::invalid_params(malformed(&method, params.as_ref()), None))
    }
}

/// Says what is wrong with parameters that have the wrong shape.
fn malformed(method: &str, params: Option<&Value>) -> String {
    let fault = match params {
        None => "params are missing",
        Some(Value::Object(params)) if method == "tools/call" => {
            match (params.get("name"), params.get("arguments")) {
                (None, _) => "params.name is missing",
                (Some(name), _) if !name.is_string() => "params.name has to be a string",
                (_, Some(arguments)) if !arguments.is_object() => "params.arguments has to be an object",
                _ => "params don't have this method's shape",
            }
        }
        Some(Value::Object(_)) => "params don't have this method's shape",
        Some(_) => "params have to be an object",
    };
    format!("{method}: {fault}")
}
