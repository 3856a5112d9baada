//! Declares a distribution once: its marker, its constructor for models, and its entry in errors and site tables.

/// Declares the marker of a distribution with its [`Signature`](super::Signature), and the constructor of univariate
/// ones.
///
/// `where` gives the support from the parameters of one event. Each parameter has a domain; those of a constructor are
/// numbers, and the generic type of each precedes its domain.
macro_rules! distribution {
    (
        $(#[$doc:meta])*
        pub struct $name:ident: $kind:ident where |$event:pat_param| $support:expr;

        $(#[$constructor_doc:meta])*
        pub fn $constructor:ident($($parameter:ident: $type:ident in $domain:ident),+);
    ) => {
        distribution! {
            $(#[$doc])*
            pub struct $name where |$event| $support, of $(number($parameter in $domain)),+;
        }

        impl $name {
            $(#[$constructor_doc])*
            #[allow(clippy::new_ret_no_self, reason = "the density is a marker; a model uses the distribution")]
            pub fn $constructor<$($type),+>(
                $($parameter: $type),+
            ) -> <($($type,)+) as $crate::distribution::Parameters<$crate::distribution::$kind>>::Distribution
            where
                ($($type,)+): $crate::distribution::Parameters<$crate::distribution::$kind>,
            {
                $crate::distribution::Parameters::build(($($parameter,)+), &Self)
            }
        }
    };
    (
        $(#[$doc:meta])*
        pub struct $name:ident where |$event:pat_param| $support:expr, of $($rank:ident($parameter:ident in $domain:ident)),+;
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl $crate::distribution::Signature for $name {
            fn name(&self) -> &'static str {
                stringify!($name)
            }

            fn parameters(&self) -> &'static [$crate::distribution::ParameterRule] {
                use $crate::distribution::{Domain, ParameterRule};
                &const { [$(ParameterRule::$rank(stringify!($parameter), Domain::$domain)),+] }
            }

            fn support(&self, parameters: [&[f64]; 3]) -> $crate::distribution::Support {
                use $crate::distribution::Support;
                let support: fn([&[f64]; 3]) -> Support = |$event| $support;
                support(parameters)
            }
        }
    };
}
pub(crate) use distribution;
