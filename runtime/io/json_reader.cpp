#include "runtime/io/json_reader.hpp"

#include "runtime/io/json_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace millrace::runtime {
namespace {

constexpr const char* json_reader_component = "io.json";

bool is_integer(const Json& value, std::int64_t min, std::int64_t max) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>())) return false;
  return value.get<std::int64_t>() >= min && value.get<std::int64_t>() <= max;
}

bool is_number(const Json& value, double min, double max) {
  return value.is_number() && value.get<double>() >= min && value.get<double>() <= max;
}

}  // namespace

Json parse_json(std::string_view text, int depth, ExitCode code, std::string_view path) {
  // The library treats a NUL as the end of its input.
  MILLRACE_CHECK(text.find('\0') == std::string_view::npos, code, json_reader_component, "{}: a NUL byte in JSON", path);
  std::vector<std::unordered_set<std::string>> keys;
  const auto watch = [&](int level, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start)
      MILLRACE_CHECK(level < depth, code, json_reader_component, "{}: JSON nested deeper than {}", path, depth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key)
      MILLRACE_CHECK(keys.back().insert(parsed.get_ref<const std::string&>()).second, code, json_reader_component,
                     "{}: the key '{}' appears twice", path, parsed.get_ref<const std::string&>());
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    fail(code, json_reader_component, "{}: not JSON: {}", path, json_words(error.what()));
  }
}

// -- places -------------------------------------------------------------------------------------------------------------------------------

JsonReader::JsonReader(const Json& value, std::string_view path, ExitCode code, std::string place)
    : JsonReader(value, std::make_shared<const Source>(Source{std::string(path), code}), std::move(place)) {}

JsonReader::JsonReader(const Json& value, std::shared_ptr<const Source> source, std::string place)
    : value_(value), source_(std::move(source)), place_(std::move(place)) {}

std::string JsonReader::place_of(std::string_view key) const {
  return fmt::format("{}{}{}", place_, place_.empty() ? "" : ".", key.substr(0, 100));
}

std::string JsonReader::shown(const Json& value) {
  constexpr std::size_t max_shown = 200;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= max_shown ? text : text.substr(0, max_shown) + " …";
}

void JsonReader::refuse(std::string_view expected) const {
  fail(source_->code, json_reader_component, "{}: {} = {}, {}", source_->path, place_.empty() ? "the file" : place_, shown(value_),
       expected);
}

void JsonReader::refuse(std::string_view key, std::string_view expected) const {
  const auto found = value_.find(key);
  fail(source_->code, json_reader_component, "{}: {} = {}, {}", source_->path, place_of(key),
       found == value_.end() ? "(missing)" : shown(*found), expected);
}

// -- members ------------------------------------------------------------------------------------------------------------------------------

const Json* JsonReader::find(std::string_view key) const {
  read_.emplace_back(key);
  const auto found = object().find(key);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonReader::has(std::string_view key) const {
  read_.emplace_back(key);
  return object().contains(key);
}

std::optional<JsonReader> JsonReader::optional_member(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  return JsonReader(*found, source_, place_of(key));
}

JsonReader JsonReader::member(std::string_view key) const {
  const Json* found = find(key);
  MILLRACE_CHECK(found != nullptr, source_->code, json_reader_component, "{}: {} is missing", source_->path, place_of(key));
  return {*found, source_, place_of(key)};
}

std::optional<std::int64_t> JsonReader::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  const auto found = optional_member(key);
  return found ? std::optional(found->integer(min, max)) : std::nullopt;
}

std::int64_t JsonReader::size(std::string_view key, std::int64_t max, std::int64_t default_size) const {
  const auto found = integer(key, 1, max);
  if (!found && default_size > 0) return default_size;
  if (!found) refuse(key, fmt::format("expected an integer from 1 to {}", max));
  return *found;
}

std::optional<double> JsonReader::number(std::string_view key, double min, double max) const {
  const auto found = optional_member(key);
  return found ? std::optional(found->number(min, max)) : std::nullopt;
}

std::optional<bool> JsonReader::boolean(std::string_view key) const {
  const auto found = optional_member(key);
  return found ? std::optional(found->boolean()) : std::nullopt;
}

std::optional<std::string> JsonReader::text(std::string_view key) const {
  const auto found = optional_member(key);
  return found ? std::optional(found->text()) : std::nullopt;
}

std::optional<JsonReader> JsonReader::object(std::string_view key) const {
  auto found = optional_member(key);
  if (found) static_cast<void>(found->object());
  return found;
}

std::optional<std::vector<double>> JsonReader::numbers(std::string_view key, std::size_t count, double min, double max) const {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  const auto fits = [&](const Json& entry) { return is_number(entry, min, max); };
  if (!found->is_array() || found->size() != count || !std::ranges::all_of(*found, fits))
    refuse(key, fmt::format("expected a list of {} numbers from {} to {}", count, min, max));
  return found->get<std::vector<double>>();
}

void JsonReader::only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, member] : object().items()) {
    if (std::ranges::find(keys, std::string_view(key)) == keys.end())
      fail(source_->code, json_reader_component, "{}: {} is not supported", source_->path, place_of(key));
  }
}

void JsonReader::warn_of_the_rest(std::vector<std::string>& warnings, std::span<const char* const> ignored) const {
  for (const auto& [key, member] : object().items()) {
    const auto is_key = [name = std::string_view(key)](std::string_view other) { return other == name; };
    if (std::ranges::any_of(read_, is_key) || std::ranges::any_of(ignored, is_key)) continue;
    warnings.push_back(fmt::format("{}: {} is not known and not used", source_->path, place_of(key)));
  }
}

// -- this value ---------------------------------------------------------------------------------------------------------------------------

std::int64_t JsonReader::integer(std::int64_t min, std::int64_t max) const {
  if (!is_integer(value_, min, max)) refuse(fmt::format("expected an integer from {} to {}", min, max));
  return value_.get<std::int64_t>();
}

std::uint64_t JsonReader::count(std::uint64_t max) const {
  if (!value_.is_number_unsigned() || value_.get<std::uint64_t>() > max) refuse(fmt::format("expected an integer from 0 to {}", max));
  return value_.get<std::uint64_t>();
}

double JsonReader::number(double min, double max) const {
  if (!is_number(value_, min, max)) refuse(fmt::format("expected a number from {} to {}", min, max));
  return value_.get<double>();
}

bool JsonReader::boolean() const {
  if (!value_.is_boolean()) refuse("expected true or false");
  return value_.get<bool>();
}

const std::string& JsonReader::text() const {
  if (!value_.is_string()) refuse("expected a string");
  return value_.get_ref<const std::string&>();
}

const Json& JsonReader::object() const {
  if (!value_.is_object()) refuse("expected an object");
  return value_;
}

const Json& JsonReader::array() const {
  if (!value_.is_array()) refuse("expected an array");
  return value_;
}

JsonReader JsonReader::at(std::size_t index) const { return {array().at(index), source_, fmt::format("{}[{}]", place_, index)}; }

std::vector<JsonReader> JsonReader::elements() const {
  std::vector<JsonReader> all;
  all.reserve(array().size());
  for (std::size_t i = 0; i < value_.size(); ++i) all.push_back(at(i));
  return all;
}

}  // namespace millrace::runtime
