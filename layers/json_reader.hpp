#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/check.hpp"

namespace millrace::layers {

using Json = nlohmann::json;                 // what is read
using OrderedJson = nlohmann::ordered_json;  // what is written: people want to find sizes above rotations

/// An object of a config.json, read key by key; what was not asked for is left over. A value of the wrong kind or out of range is an
/// Error(model) that names file, key and value.
class JsonReader {
 public:
  /// `object` outlives the reader. `where` names the file in messages; `prefix` stands before its keys ("rope_parameters.").
  JsonReader(const Json& object, std::string where, std::string prefix = {})
      : object_(object), where_(std::move(where)), prefix_(std::move(prefix)) {}

  /// Null where the key is missing or null.
  const Json* find(const char* key);
  /// Whether the key is there, also as null.
  bool has(const char* key);

  template <class Wanted>
  [[noreturn]] void refuse(const char* key, const Wanted& wanted) const {
    const auto found = object_.find(key);
    fail(ExitCode::model, "layers.config_file", "{}: {}{} = {}, {}", where_, prefix_, key,
         found == object_.end() ? "(missing)" : shown(*found), wanted);
  }

  std::optional<std::int64_t> integer(const char* key, std::int64_t least, std::int64_t most);
  /// What has to be there, unless its family has a default.
  std::int64_t size(const char* key, std::int64_t most, std::int64_t otherwise = 0);
  std::optional<double> number(const char* key, double least, double most);
  std::optional<bool> boolean(const char* key);
  std::optional<std::string> text(const char* key);
  std::optional<JsonReader> object(const char* key);

  /// Of each key that nobody asked for, save those that do not change what is computed.
  void warn_of_the_rest(std::vector<std::string>& warnings) const;

  [[nodiscard]] const std::string& where() const { return where_; }

  /// As in the file, cut where it would fill the screen.
  [[nodiscard]] static std::string shown(const Json& value);

 private:
  const Json& object_;
  std::string where_;
  std::string prefix_;
  std::vector<std::string> known_;
};

}  // namespace millrace::layers
