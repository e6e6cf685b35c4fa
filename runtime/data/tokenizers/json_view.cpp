#include "runtime/data/tokenizers/json_view.hpp"

#include <algorithm>

namespace millrace::runtime {

std::optional<JsonView> JsonView::find(const char* key) const {
  const auto found = object().find(key);
  if (found == value_.end() || found->is_null()) return std::nullopt;
  return JsonView(*found, file_, place_.empty() ? key : place_ + "." + key);
}

JsonView JsonView::member(const char* key) const {
  auto found = find(key);
  MILLRACE_CHECK(found.has_value(), ExitCode::data, "tokenize", "{}: {}{}{} is missing", file_, place_, place_.empty() ? "" : ".", key);
  return *found;
}

void JsonView::only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : object().items()) {
    if (std::find(keys.begin(), keys.end(), std::string_view(key)) != keys.end()) continue;
    fail(ExitCode::data, "tokenize", "{}: {}{}{} is not supported", file_, place_, place_.empty() ? "" : ".", key.substr(0, 100));
  }
}

const nlohmann::json& JsonView::object() const {
  if (!value_.is_object()) refuse("an object");
  return value_;
}

const nlohmann::json& JsonView::array() const {
  if (!value_.is_array()) refuse("an array");
  return value_;
}

const std::string& JsonView::text() const {
  if (!value_.is_string()) refuse("a string");
  return value_.get_ref<const std::string&>();
}

bool JsonView::boolean() const {
  if (!value_.is_boolean()) refuse("true or false");
  return value_.get<bool>();
}

std::int32_t JsonView::count(std::int32_t max) const {
  if (!value_.is_number_unsigned() || value_.get<std::uint64_t>() > static_cast<std::uint64_t>(max)) {
    refuse(fmt::format("a whole number from 0 to {}", max));
  }
  return static_cast<std::int32_t>(value_.get<std::uint64_t>());
}

bool JsonView::boolean(const char* key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->boolean() : otherwise;
}

JsonView JsonView::at(std::size_t index) const { return {array().at(index), file_, fmt::format("{}[{}]", place_, index)}; }

std::string JsonView::type() const {
  const auto found = find("type");
  return found ? found->text() : std::string();
}

void JsonView::refuse(std::string_view expected) const {
  // The value may be as long as the file, or nested, so only scalars are shown.
  std::string found = value_.is_structured() ? fmt::format("an {} of {}", value_.type_name(), value_.size()) : value_.dump();
  if (found.size() > 100) found = found.substr(0, 100) + "…";
  fail(ExitCode::data, "tokenize", "{}: {} is {}; expected {}", file_, place_.empty() ? "the file" : place_, found, expected);
}

}  // namespace millrace::runtime
