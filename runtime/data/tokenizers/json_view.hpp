#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

/// A value in a JSON file together with its path ("model.merges[7]"), so that every error names the file and the place. All
/// failures are Error(data). The value must outlive the view.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, const std::string& file, std::string place)
      : value_(value), file_(file), place_(std::move(place)) {}

  /// The member, or nothing if it is missing or null.
  [[nodiscard]] std::optional<JsonView> find(const char* key) const;
  [[nodiscard]] JsonView member(const char* key) const;
  /// Throws for any member that is not among `keys`, by name.
  void only(std::initializer_list<std::string_view> keys) const;

  /// The value itself, checked to be of the expected kind.
  [[nodiscard]] const nlohmann::json& object() const;
  [[nodiscard]] const nlohmann::json& array() const;
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] bool boolean() const;
  /// A whole number from 0 to `max`.
  [[nodiscard]] std::int32_t count(std::int32_t max) const;

  [[nodiscard]] std::string text(const char* key) const { return member(key).text(); }
  [[nodiscard]] bool boolean(const char* key, bool otherwise) const;
  [[nodiscard]] JsonView at(std::size_t index) const;
  /// The member "type" of an object; empty if there is none.
  [[nodiscard]] std::string type() const;
  [[nodiscard]] bool is_text() const { return value_.is_string(); }

  /// Throws "FILE: PLACE is FOUND; expected EXPECTED".
  [[noreturn]] void refuse(std::string_view expected) const;

 private:
  const nlohmann::json& value_;
  const std::string& file_;
  std::string place_;
};

}  // namespace millrace::runtime
