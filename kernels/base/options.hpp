#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>

/// The attributes of an operation are one plain struct, its Options (RmsNormOptions, AttentionOptions). The struct lists its
/// members once, so that code can print and compare options without knowing their type:
///
///   struct RmsNormOptions {
///     float epsilon = 0.0F;
///     float offset = 0.0F;
///     static constexpr auto members() { return std::tuple(member("epsilon", &RmsNormOptions::epsilon), member("offset", …)); }
///   };
namespace millrace::kernels {

template <class Struct, class Type>
struct Member {
  const char* name;
  Type Struct::*pointer;
};
template <class Struct, class Type>
[[nodiscard]] constexpr Member<Struct, Type> member(const char* name, Type Struct::*pointer) {
  return {name, pointer};
}

namespace detail {

struct Anything {
  template <class T>
  operator T() const;
};

/// The number of members of an aggregate, which is the number of initializers that it accepts.
template <class Struct, class... Initializers>
constexpr std::size_t count_members() {
  if constexpr (requires { Struct{Initializers{}..., Anything{}}; })
    return count_members<Struct, Initializers..., Anything>();
  else
    return sizeof...(Initializers);
}

}  // namespace detail

/// A struct whose members() lists all of its members. A forgotten one would be ignored in comparisons, so this does not compile.
template <class T>
concept Options = std::is_aggregate_v<T> && std::copyable<T> && requires {
  T::members();
} && std::tuple_size_v<decltype(T::members())>
== detail::count_members<T>();

}  // namespace millrace::kernels
