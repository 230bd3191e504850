//! Lends a few read-only connections, with a gate in front of them.
//!
//! A reader that finds none free waits: reads are short, and more connections than cores would only compete. A copy of
//! the whole store is not short, so it has a connection of its own ([`Pool::lend_long`]). While the file is being
//! replaced the gate is shut for both: nobody may hold the old file then, because SQLite names its WAL by the path (see
//! `store`).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::error::Fault;
use crate::schema;

const MOST: usize = 4;

pub(crate) struct Pool {
    path: PathBuf,
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    idle: Vec<Connection>,
    lent: usize,
    /// For as long as a copy takes.
    lent_long: usize,
    shut: bool,
}

impl Pool {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), held: Mutex::default(), changed: Condvar::new() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn lend<T>(&self, read: impl FnOnce(&mut Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut loan = self.borrow()?;
        let result = read(loan.connection()?);
        // One that failed may be the fault's home; the next reader gets a new one.
        if result.is_err() {
            loan.conn = None;
        }
        result
    }

    /// A connection beside the others, closed when the loan ends.
    pub fn lend_long(self: &Arc<Self>) -> Result<LongLoan, Fault> {
        let waited = self.changed.wait_while(self.lock(), |held| held.shut);
        waited.unwrap_or_else(PoisonError::into_inner).lent_long += 1;
        let mut loan = LongLoan { pool: Arc::clone(self), conn: None };
        loan.conn = Some(schema::reader(&self.path)?);
        Ok(loan)
    }

    /// Waits for every reader and closes their connections; the gate opens when the guard is dropped.
    pub fn shut(&self) -> Shut<'_> {
        let mut held = self.lock();
        held.shut = true;
        held.idle.clear();
        let waited = self.changed.wait_while(held, |held| held.lent + held.lent_long > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        Shut(self)
    }

    fn borrow(&self) -> Result<Loan<'_>, Fault> {
        let held = self.lock();
        let waited = self.changed.wait_while(held, |held| held.shut || held.lent >= MOST);
        let mut held = waited.unwrap_or_else(PoisonError::into_inner);
        held.lent += 1;
        let conn = held.idle.pop();
        drop(held);
        let mut loan = Loan { pool: self, conn };
        if loan.conn.is_none() {
            loan.conn = Some(schema::reader(&self.path)?);
        }
        Ok(loan)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Loan<'p> {
    pool: &'p Pool,
    conn: Option<Connection>,
}

impl Loan<'_> {
    fn connection(&mut self) -> Result<&mut Connection, Fault> {
        self.conn.as_mut().ok_or_else(|| Fault::Contradiction("a reader without a connection".to_owned()))
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut held = self.pool.lock();
        held.lent -= 1;
        let shut = held.shut;
        held.idle.extend(self.conn.take().filter(|_| !shut));
        drop(held);
        self.pool.changed.notify_all();
    }
}

/// See [`Pool::lend_long`].
pub(crate) struct LongLoan {
    pool: Arc<Pool>,
    conn: Option<Connection>,
}

impl LongLoan {
    pub fn connection(&self) -> Result<&Connection, Fault> {
        self.conn.as_ref().ok_or_else(|| Fault::Contradiction("a loan without a connection".to_owned()))
    }
}

impl Drop for LongLoan {
    fn drop(&mut self) {
        // Closed before the thread that waits for it continues.
        self.conn = None;
        self.pool.lock().lent_long -= 1;
        self.pool.changed.notify_all();
    }
}

pub(crate) struct Shut<'p>(&'p Pool);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.lock().shut = false;
        self.0.changed.notify_all();
    }
}
