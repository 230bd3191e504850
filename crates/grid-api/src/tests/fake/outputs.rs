//! The results and outputs of the controller in memory.

use axum::body::Bytes;
use grid_controller::{BrokenOff, Caller, LogQuery, Output, OutputQuery, Outputs, Refusal, ResultQuery};
use grid_types::api::{ListDoc, LogDoc, LogNote, OutputGroupDoc, ResultRowDoc};
use grid_types::{Attempt, Code, JobRef, JobStatus, StepIndex};
use serde_json::json;
use tokio::sync::mpsc;

use super::Fake;

impl Outputs for Fake {
    async fn results(
        &self,
        _caller: &Caller,
        job: &JobRef,
        query: ResultQuery,
    ) -> Result<ListDoc<ResultRowDoc>, Refusal> {
        self.called(format!("results {} {job} {query:?}", job.namespace))?;
        let row = json!({"step": 0, "node": "web-01", "status": "timed_out", "attempts": 2, "duration": "2.3s"});
        Ok(ListDoc { items: vec![serde_json::from_value(row).unwrap()], next: Some("0:web-01".to_owned()) })
    }

    async fn output(&self, _caller: &Caller, job: &JobRef, query: OutputQuery) -> Result<Output, Refusal> {
        self.called(format!("output {} {job} {query:?}", job.namespace))?;
        if query.node.as_str() == "silent" {
            return Err(Refusal::new(Code::NotFound, "no output of step 0 on silent"));
        }
        let (sender, pieces) = mpsc::channel(4);
        sender.send(Ok(Bytes::from_static(b"<b>\xff\x00"))).await.unwrap();
        sender.send(Ok(Bytes::from_static(b"tail"))).await.unwrap();
        if query.node.as_str() == "broken" {
            sender.send(Err(BrokenOff("its worker is gone".to_owned()))).await.unwrap();
        }
        Ok(Output { attempt: Attempt(2), total_bytes: Some(70_000), offset: 69_991, pieces })
    }

    async fn logs(&self, _caller: &Caller, job: &JobRef, query: LogQuery) -> Result<mpsc::Receiver<LogDoc>, Refusal> {
        self.called(format!("logs {} {job} {query:?}", job.namespace))?;
        let (sender, records) = mpsc::channel(4);
        let note = LogNote { step: 0, node: "web-01".into(), word: "away".into(), text: "web-01 is away".into() };
        sender.send(LogDoc::Note(note)).await.unwrap();
        sender.send(LogDoc::End { status: JobStatus::Completed }).await.unwrap();
        Ok(records)
    }

    async fn outputs(
        &self,
        _caller: &Caller,
        job: &JobRef,
        step: StepIndex,
        run: Option<u32>,
    ) -> Result<Vec<OutputGroupDoc>, Refusal> {
        let of_run = run.map(|run| format!(" run {run}")).unwrap_or_default();
        self.called(format!("outputs {} {job} {step}{of_run}", job.namespace))?;
        let nodes = vec!["web-01".to_owned(), "web-02".to_owned()];
        Ok(vec![OutputGroupDoc { count: 2, nodes, output: "ok\n".to_owned(), total_bytes: 3 }])
    }
}
