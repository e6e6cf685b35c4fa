#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

using Json = nlohmann::json;                 // what is read
using OrderedJson = nlohmann::ordered_json;  // what is written: people want to find sizes above rotations

/// An object of a JSON file, read key by key, with a record of the keys that nobody asked for. A value of the wrong kind or out of range is
/// an Error(model) that names file, key and value. Thread: one at a time.
class JsonReader {
 public:
  /// `object` outlives the reader. `where` names the file in messages; `prefix` stands before its keys ("rope_parameters.").
  JsonReader(const Json& object, std::string where, std::string prefix = {})
      : object_(object), where_(std::move(where)), prefix_(std::move(prefix)) {}

  /// Null where the key is missing or null.
  const Json* find(const char* key);
  /// Whether the key is there, also as null.
  bool has(const char* key);

  /// Error(model): "<where>: <key> = <value>, <what is expected>".
  [[noreturn]] void refuse(const char* key, std::string_view expected) const;

  /// Nothing where the key is missing or null.
  std::optional<std::int64_t> integer(const char* key, std::int64_t min, std::int64_t max);
  std::optional<double> number(const char* key, double min, double max);
  std::optional<bool> boolean(const char* key);
  std::optional<std::string> text(const char* key);
  std::optional<JsonReader> object(const char* key);
  /// Numbers within the range, `count` of them.
  std::optional<std::vector<double>> numbers(const char* key, std::size_t count, double min, double max);
  /// A value that has to be there; where `missing` is above 0 that is the default.
  std::int64_t size(const char* key, std::int64_t max, std::int64_t missing = 0);

  /// Adds a warning for each key that nobody asked for, except those in `ignored`.
  void warn_of_the_rest(std::vector<std::string>& warnings, std::span<const char* const> ignored = {}) const;

  [[nodiscard]] const std::string& where() const { return where_; }

  /// As in the file, cut where it would fill the screen.
  [[nodiscard]] static std::string shown(const Json& value);

 private:
  const Json& object_;
  std::string where_;
  std::string prefix_;
  std::vector<std::string> known_;
};

}  // namespace millrace::runtime
