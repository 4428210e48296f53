//! Classes of operations: how much care an operation needs before an agent may ask it.
//!
//! The class is a type, so a kind can demand it: a [`crate::Mutation`] over a consequential operation is a
//! compile error, not a review comment.

mod sealed {
    pub trait Sealed {}
}

/// One of the four classes. Sealed: a fifth class is a change to this crate.
pub trait Class: sealed::Sealed + 'static {
    /// The class by name.
    const NAME: ClassName;
}

/// A class by name, for lists and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassName {
    /// See [`Routine`].
    Routine,
    /// See [`CredentialBearing`].
    CredentialBearing,
    /// See [`Consequential`].
    Consequential,
    /// See [`Withheld`].
    Withheld,
}

/// Reads, and steps whose effect stays within the caller's own pending work.
#[derive(Clone, Copy, Debug)]
pub enum Routine {}
/// Its request or reply holds a raw credential.
#[derive(Clone, Copy, Debug)]
pub enum CredentialBearing {}
/// It can end a process, change durable configuration or reach beyond the caller's own pending work.
///
/// Only [`crate::Change`] accepts one, and only as the pair that an [`crate::Action`] makes.
/// A direct route (one step, no receipt) is of this class too, and so no kind accepts it.
#[derive(Clone, Copy, Debug)]
pub enum Consequential {}
/// It stays out of an agent's reach for good; the operation says why.
#[derive(Clone, Copy, Debug)]
pub enum Withheld {}

macro_rules! classes {
    ($($class:ident),*) => {$(
        impl sealed::Sealed for $class {}
        impl Class for $class {
            const NAME: ClassName = ClassName::$class;
        }
    )*};
}
classes!(Routine, CredentialBearing, Consequential, Withheld);
