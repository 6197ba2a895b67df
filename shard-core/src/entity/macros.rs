//! The `messages!` macro.
//!
//! Its output lands in the user's crate, where `cfg(feature = …)` would ask for the *user's* features. What depends on
//! our feature `wire` is therefore an inner macro with two definitions.

/// Lists what an entity type understands: each message with the type of its answer.
///
/// ```
/// use shard_core::prelude::*;
/// pub struct Add(pub u64);
/// pub struct Get;
/// messages! {
///     /// What a counter understands.
///     pub enum CounterMessage as "counter" { Add -> (), Get -> u64 }
/// }
/// ```
/// With a tag before each message they can travel to other nodes (feature `wire`); messages and answers then need
/// serde's derives. A tag is for ever: a changed message is a new struct with a new tag.
#[cfg_attr(feature = "wire", doc = "```")]
#[cfg_attr(not(feature = "wire"), doc = "```ignore")]
/// use serde::{Deserialize, Serialize};
/// use shard_core::prelude::*;
/// #[derive(Serialize, Deserialize)] pub struct Add { pub sku: String }
/// #[derive(Serialize, Deserialize)] pub struct View;
/// messages! {
///     /// What a cart understands.
///     pub enum CartMessage as "cart" {
///         1 => Add -> usize,
///         2 => View -> Vec<String>,
///     }
/// }
/// ```
/// Two messages under one tag do not compile:
#[cfg_attr(feature = "wire", doc = "```compile_fail,E0080")]
#[cfg_attr(not(feature = "wire"), doc = "```ignore")]
/// # use serde::{Deserialize, Serialize};
/// # use shard_core::prelude::*;
/// # #[derive(Serialize, Deserialize)] pub struct Add { pub sku: String }
/// # #[derive(Serialize, Deserialize)] pub struct View;
/// messages! { pub enum CartMessage as "cart" { 1 => Add -> usize, 1 => View -> Vec<String> } }
/// ```
/// Nor does a message that serde does not know:
#[cfg_attr(feature = "wire", doc = "```compile_fail,E0277")]
#[cfg_attr(not(feature = "wire"), doc = "```ignore")]
/// # use shard_core::prelude::*;
/// pub struct Raw;
/// messages! { pub enum RawMessage as "raw" { 1 => Raw -> () } }
/// ```
/// A message is named by one identifier in scope, which may be a type of another crate or `u64` or `String`. The macro
/// makes the enum (its variants are not for you), [`Protocol`](crate::entity::Protocol), one
/// [`Accepts`](crate::entity::Accepts) per message, [`Dispatch`](crate::entity::Dispatch) for every entity that handles
/// all of them, and with tags [`Wire`](crate::entity::Wire).
#[macro_export]
macro_rules! messages {
    ($(#[$meta:meta])* $vis:vis enum $name:ident as $kind:literal {
        $($(#[$note:meta])* $tag:literal => $message:ident -> $reply:ty),+ $(,)?
    }) => {
        $crate::__protocol! {
            $(#[$meta])* $vis enum $name as $kind, [$(($tag, ::core::stringify!($message))),+],
            { $($(#[$note])* $message -> $reply),+ }
        }
        const _: () = $crate::entity::macro_support::distinct_tags(<$name as $crate::entity::Protocol>::MESSAGES);
        $crate::__wire! { $name { $($tag => $message -> $reply),+ } }
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident as $kind:literal {
        $($(#[$note:meta])* $message:ident -> $reply:ty),+ $(,)?
    }) => {
        $crate::__protocol! {
            $(#[$meta])* $vis enum $name as $kind,
            {
                #[allow(non_camel_case_types)]
                enum Place { $($message),+ }
                [$((Place::$message as u16 + 1, ::core::stringify!($message))),+]
            },
            { $($(#[$note])* $message -> $reply),+ }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __protocol {
    ($(#[$meta:meta])* $vis:vis enum $name:ident as $kind:literal, $list:expr,
        { $($(#[$note:meta])* $message:ident -> $reply:ty),+ }
    ) => {
        $(#[$meta])*
        #[allow(non_camel_case_types, clippy::large_enum_variant)]
        $vis enum $name {
            $($(#[$note])* #[doc(hidden)] $message($message, $crate::entity::ReplyTo<$reply>)),+
        }

        impl $crate::entity::Protocol for $name {
            const TYPE_NAME: &'static str = $kind;
            const MESSAGES: &'static [(u16, &'static str)] = &$list;

            fn tag(&self) -> u16 {
                #[allow(non_camel_case_types)]
                enum Place { $($message),+ }
                let place = match self {
                    $(Self::$message(..) => Place::$message as usize),+
                };
                Self::MESSAGES[place].0
            }

            fn is_ask(&self) -> bool {
                match self {
                    $(Self::$message(_, reply) => reply.is_ask()),+
                }
            }

            fn refuse(self, reason: $crate::entity::Reason) {
                match self {
                    $(Self::$message(_, reply) => reply.refuse(reason)),+
                }
            }

            fn withdraw(self) {
                match self {
                    $(Self::$message(_, reply) => reply.withdraw()),+
                }
            }
        }

        $(impl $crate::entity::Accepts<$message> for $name {
            type Reply = $reply;

            fn wrap(message: $message, reply: $crate::entity::ReplyTo<$reply>) -> Self {
                Self::$message(message, reply)
            }

            #[allow(unreachable_patterns)]
            fn unwrap(self) -> ::core::option::Option<($message, $crate::entity::ReplyTo<$reply>)> {
                match self {
                    Self::$message(message, reply) => ::core::option::Option::Some((message, reply)),
                    _ => ::core::option::Option::None,
                }
            }
        })+

        impl<E> $crate::entity::Dispatch<E> for $name
        where
            E: $crate::entity::Entity<Message = $name> $(+ $crate::entity::HandleDeferred<$message>)+,
        {
            // An `async fn` would store the message twice.
            #[allow(clippy::manual_async_fn)]
            fn dispatch(
                self,
                entity: &mut E,
                ctx: &mut $crate::entity::Context<'_, E>,
            ) -> impl ::core::future::Future<Output = ()> + ::core::marker::Send {
                async move {
                    match self {
                        $(Self::$message(message, reply) => {
                            $crate::entity::HandleDeferred::handle_deferred(entity, message, reply, ctx).await
                        }),+
                    }
                }
            }
        }

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(match self {
                    $(Self::$message(..) => ::core::concat!(
                        ::core::stringify!($name), "::", ::core::stringify!($message)
                    )),+
                })
            }
        }
    };
}

#[cfg(feature = "wire")]
#[doc(hidden)]
#[macro_export]
macro_rules! __wire {
    ($name:ident { $($tag:literal => $message:ident -> $reply:ty),+ }) => {
        impl $crate::entity::Wire for $name {
            fn encode(&self, out: &mut $crate::entity::macro_support::Vec<u8>) -> u16 {
                match self {
                    $(Self::$message(message, _) => {
                        $crate::entity::macro_support::encode::<$message>(message, out);
                        $tag
                    }),+
                }
            }

            fn complete(self, body: ::core::result::Result<&[u8], $crate::entity::NoReply>) {
                match self {
                    $(Self::$message(_, reply) => {
                        reply.complete(body, $crate::entity::macro_support::decode::<$reply>)
                    }),+
                }
            }

            fn decode(
                tag: u16,
                body: &[u8],
                reply: ::core::option::Option<$crate::entity::macro_support::Box<dyn $crate::entity::ReplyPath>>,
            ) -> ::core::result::Result<Self, $crate::entity::DecodeError> {
                match tag {
                    $($tag => match $crate::entity::macro_support::decode::<$message>(body) {
                        ::core::option::Option::Some(message) => ::core::result::Result::Ok(Self::$message(
                            message,
                            match reply {
                                ::core::option::Option::Some(path) => $crate::entity::ReplyTo::there(
                                    path,
                                    $crate::entity::macro_support::encode_reply::<$reply>,
                                ),
                                ::core::option::Option::None => $crate::entity::ReplyTo::nobody(),
                            },
                        )),
                        ::core::option::Option::None => {
                            ::core::result::Result::Err($crate::entity::DecodeError::Garbled)
                        }
                    },)+
                    _ => ::core::result::Result::Err($crate::entity::DecodeError::UnknownMessage),
                }
            }
        }
    };
}

#[cfg(not(feature = "wire"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __wire {
    ($name:ident { $($tag:literal => $message:ident -> $reply:ty),+ }) => {
        ::core::compile_error!(
            "wire tags need the feature `wire` of shard-core; leave the tags out for messages that stay in this process"
        );
    };
}
