#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "configs/schema.hpp"

/// How a key is bound to its member of RunConfig: what the sources with lists of keys share.
namespace millrace::configs::binding {

inline constexpr double many = 1e9;   // largest number of steps, rows, milliseconds
inline constexpr double huge = 1e15;  // largest position

template <class Member>
constexpr Kind kind_of() {
  if constexpr (std::is_same_v<Member, bool>) return Kind::boolean;
  if constexpr (std::is_same_v<Member, std::int64_t> || std::is_same_v<Member, int>) return Kind::integer;
  if constexpr (std::is_same_v<Member, double>) return Kind::number;
  if constexpr (std::is_same_v<Member, std::string>) return Kind::text;
  if constexpr (std::is_same_v<Member, std::vector<std::string>>) return Kind::list;
  if constexpr (std::is_same_v<Member, std::vector<double>>) return Kind::numbers;
  if constexpr (std::is_same_v<Member, std::vector<std::int64_t>>) return Kind::integers;
}

/// Binds a key to a member of RunConfig: `member` is a function RunConfig& -> T&, where T is one of the alternatives of Value.
template <class Access>
Key bind(const char* name, Mark mark, const char* doc, Access member) {
  using Member = std::remove_reference_t<std::invoke_result_t<Access, RunConfig&>>;
  Key key;
  key.name = name;
  key.kind = kind_of<Member>();
  key.mark = mark;
  key.doc = doc;
  // Value's integers have 64 bits; the key's range must exclude values that overflow a shorter member.
  using Held = std::conditional_t<std::is_same_v<Member, int>, std::int64_t, Member>;
  key.fetch = [member](const RunConfig& config) { return Value(static_cast<Held>(member(const_cast<RunConfig&>(config)))); };
  key.store = [member](RunConfig& config, const Value& value) { member(config) = static_cast<Member>(std::get<Held>(value)); };
  return key;
}

inline Key between(Key key, double least, double most, const char* unit = "") {
  key.least = least;
  key.most = most;
  key.unit = unit;
  return key;
}

inline Key among(Key key, std::vector<std::string> choices) {
  key.choices = std::move(choices);
  return key;
}

/// A key whose values are names; `fetch` and `store` convert between the member and the name.
template <class Fetch, class Store>
Key named(const char* name, const char* doc, std::vector<std::string> choices, Fetch fetch, Store store) {
  Key key;
  key.name = name;
  key.mark = Mark::identity;
  key.doc = doc;
  key.choices = std::move(choices);
  key.fetch = [fetch](const RunConfig& config) { return Value(std::string(fetch(config))); };
  key.store = [store](RunConfig& config, const Value& value) { store(config, std::get<std::string>(value)); };
  return key;
}

template <class Names>
std::vector<std::string> names_of(const Names& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto value : values) names.emplace_back(to_string(value));
  return names;
}

/// A function from a run to its member at `path`, for bind().
#define MEMBER(path) ([](RunConfig & config) -> auto& { return config.path; })

}  // namespace millrace::configs::binding

namespace millrace::configs {

/// Appends the keys of [model], those of MaxText's blocks last.
void append_model_keys(std::vector<Key>& keys);

}  // namespace millrace::configs
