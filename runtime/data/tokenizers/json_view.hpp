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

/// A value in a JSON file together with its place ("model.merges[7]"), so that whatever is wrong with it is said with file and place.
/// Every failure is Error(data). The value outlives the view.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, const std::string& file, std::string place)
      : value_(value), file_(file), place_(std::move(place)) {}

  /// A member that is missing or null is nothing.
  [[nodiscard]] std::optional<JsonView> find(const char* key) const;
  [[nodiscard]] JsonView member(const char* key) const;
  /// Refuses any member but these, by name.
  void only(std::initializer_list<std::string_view> keys) const;

  /// The value itself, of the wanted kind.
  [[nodiscard]] const nlohmann::json& object() const;
  [[nodiscard]] const nlohmann::json& array() const;
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] bool boolean() const;
  /// A whole number from 0 to `most`.
  [[nodiscard]] std::int32_t count(std::int32_t most) const;

  [[nodiscard]] std::string text(const char* key) const { return member(key).text(); }
  [[nodiscard]] bool boolean(const char* key, bool otherwise) const;
  [[nodiscard]] JsonView at(std::size_t index) const;
  /// Of an object with a member "type"; empty if there is none.
  [[nodiscard]] std::string type() const;
  [[nodiscard]] bool is_text() const { return value_.is_string(); }

  /// "FILE: PLACE is FOUND; expected WANTED".
  [[noreturn]] void refuse(std::string_view wanted) const;

 private:
  const nlohmann::json& value_;
  const std::string& file_;
  std::string place_;
};

}  // namespace millrace::runtime
