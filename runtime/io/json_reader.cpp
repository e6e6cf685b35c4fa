#include "runtime/io/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace millrace::runtime {

const Json* JsonReader::find(const char* key) {
  known_.emplace_back(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonReader::has(const char* key) {
  known_.emplace_back(key);
  return object_.contains(key);
}

std::string JsonReader::shown(const Json& value) {
  constexpr std::size_t max_shown = 200;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= max_shown ? text : text.substr(0, max_shown) + " …";
}

void JsonReader::refuse(const char* key, std::string_view expected) const {
  const auto found = object_.find(key);
  fail(ExitCode::model, "io.json_reader", "{}: {}{} = {}, {}", where_, prefix_, key, found == object_.end() ? "(missing)" : shown(*found),
       expected);
}

std::optional<std::int64_t> JsonReader::integer(const char* key, std::int64_t min, std::int64_t max) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits =
      value->is_number_integer() && (!value->is_number_unsigned() || value->get<std::uint64_t>() <= static_cast<std::uint64_t>(max));
  if (!fits || value->get<std::int64_t>() < min || value->get<std::int64_t>() > max) {
    refuse(key, fmt::format("expected an integer from {} to {}", min, max));
  }
  return value->get<std::int64_t>();
}

std::int64_t JsonReader::size(const char* key, std::int64_t max, std::int64_t missing) {
  const auto value = integer(key, 1, max);
  if (!value && missing > 0) return missing;
  if (!value) refuse(key, fmt::format("expected an integer from 1 to {}", max));
  return *value;
}

std::optional<double> JsonReader::number(const char* key, double min, double max) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= min && value->get<double>() <= max)) {
    refuse(key, fmt::format("expected a number from {} to {}", min, max));
  }
  return value->get<double>();
}

std::optional<bool> JsonReader::boolean(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "expected true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonReader::text(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "expected a string");
  return value->get<std::string>();
}

std::optional<JsonReader> JsonReader::object(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse(key, "expected an object");
  return JsonReader(*value, where_, std::string(key) + ".");
}

std::optional<std::vector<double>> JsonReader::numbers(const char* key, std::size_t count, double min, double max) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto fits = [&](const Json& entry) { return entry.is_number() && entry.get<double>() >= min && entry.get<double>() <= max; };
  if (!value->is_array() || value->size() != count || !std::ranges::all_of(*value, fits))
    refuse(key, fmt::format("expected a list of {} numbers from {} to {}", count, min, max));
  return value->get<std::vector<double>>();
}

void JsonReader::warn_of_the_rest(std::vector<std::string>& warnings, std::span<const char* const> ignored) const {
  for (const auto& [key, value] : object_.items()) {
    const auto is_key = [name = std::string_view(key)](std::string_view other) { return other == name; };
    if (std::ranges::any_of(known_, is_key) || std::ranges::any_of(ignored, is_key)) continue;
    warnings.push_back(fmt::format("{}: {}{} is not known and not used", where_, prefix_, key));
  }
}

}  // namespace millrace::runtime
