#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

using Json = nlohmann::json;                 // what is read
using OrderedJson = nlohmann::ordered_json;  // what is written, if the order of keys shall be the writer's

/// Parses a whole JSON text that may be hostile: duplicate keys, nesting deeper than `depth`, NUL bytes and invalid UTF-8 are errors with
/// exit code `code` that name `path`.
[[nodiscard]] Json parse_json(std::string_view text, int depth, ExitCode code, std::string_view path);

/// A value in a JSON file together with its place ("model.merges[7]"), so that every error names the file, the place and the value. All
/// JSON that comes from outside is read through this class, except the headers of safetensors files: they are parsed as a stream, because
/// they can have a million entries, and are never held as a whole.
///
/// Functions with a key read a member of this object, and return nothing if it is missing or null; member() is for one that is required.
/// Functions without a key read this value itself. Errors have the exit code that the reader was made with. Thread: one at a time.
class JsonReader {
 public:
  /// `value` must outlive the reader. `path` names the file in messages, `place` the value within it; the file itself has an empty place.
  JsonReader(const Json& value, std::string_view path, ExitCode code, std::string place = {});

  /// Null if the key is missing or null.
  const Json* find(std::string_view key) const;
  /// Whether the key is there, also if its value is null.
  bool has(std::string_view key) const;
  /// The member as a reader. The error of member() is "PATH: PLACE is missing".
  [[nodiscard]] std::optional<JsonReader> optional_member(std::string_view key) const;
  [[nodiscard]] JsonReader member(std::string_view key) const;

  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  [[nodiscard]] std::optional<double> number(std::string_view key, double min, double max) const;
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] std::optional<JsonReader> object(std::string_view key) const;
  /// `count` numbers within the range.
  [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key, std::size_t count, double min, double max) const;
  /// An integer from 1 to `max`; it is required unless there is a default above 0.
  [[nodiscard]] std::int64_t size(std::string_view key, std::int64_t max, std::int64_t default_size = 0) const;

  [[nodiscard]] std::int64_t integer(std::int64_t min, std::int64_t max) const;
  /// An integer from 0 to `max`.
  [[nodiscard]] std::uint64_t count(std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) const;
  [[nodiscard]] double number(double min, double max) const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] const Json& object() const;
  [[nodiscard]] const Json& array() const;
  /// An element of this array, and all of them.
  [[nodiscard]] JsonReader at(std::size_t index) const;
  [[nodiscard]] std::vector<JsonReader> elements() const;
  [[nodiscard]] const Json& value() const { return value_; }

  /// Throws "PATH: PLACE = VALUE, EXPECTED", for this value or for a member. `expected` begins with "expected" or "supported".
  [[noreturn]] void refuse(std::string_view expected) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

  /// Throws for a member that is not among `keys`, by name.
  void only(std::initializer_list<std::string_view> keys) const;
  /// Adds a warning for each member that no function has read, except those in `ignored`.
  void warn_of_the_rest(std::vector<std::string>& warnings, std::span<const char* const> ignored = {}) const;

  [[nodiscard]] const std::string& where() const { return source_->path; }

  /// The value as JSON in ASCII, cut after 200 characters.
  [[nodiscard]] static std::string shown(const Json& value);

 private:
  struct Source {
    std::string path;
    ExitCode code;
  };
  JsonReader(const Json& value, std::shared_ptr<const Source> source, std::string place);
  [[nodiscard]] std::string place_of(std::string_view key) const;

  const Json& value_;
  std::shared_ptr<const Source> source_;
  std::string place_;
  mutable std::vector<std::string> read_;  // the keys that were asked for
};

}  // namespace millrace::runtime
