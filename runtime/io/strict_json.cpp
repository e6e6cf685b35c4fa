#include "runtime/io/strict_json.hpp"

#include <set>
#include <string>
#include <vector>

namespace millrace::runtime {
namespace {

constexpr const char* who = "runtime.json";
using nlohmann::json;

const json& member(const json& object, const char* key, ExitCode code, std::string_view path) {
  MILLRACE_CHECK(object.is_object(), code, who, "{}: the parent of '{}' is not an object", path, key);
  const auto found = object.find(key);
  MILLRACE_CHECK(found != object.end(), code, who, "{}: '{}' is missing", path, key);
  return *found;
}

}  // namespace

json parse_strict_json(std::string_view text, int depth, ExitCode code, std::string_view path) {
  // The library treats a NUL as the end of its input.
  MILLRACE_CHECK(text.find('\0') == std::string_view::npos, code, who, "{}: a NUL byte in JSON", path);
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int level, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start)
      MILLRACE_CHECK(level < depth, code, who, "{}: JSON nested deeper than {}", path, depth);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key)
      MILLRACE_CHECK(keys.back().insert(parsed.get<std::string>()).second, code, who, "{}: the key '{}' appears twice", path,
                     parsed.get<std::string>());
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception& error) {
    fail(code, who, "{}: not JSON: {}", path, std::string_view(error.what()).substr(0, 300));
  }
}

std::uint64_t json_count(const json& object, const char* key, ExitCode code, std::string_view path) {
  const auto& value = member(object, key, code, path);
  MILLRACE_CHECK(value.is_number_unsigned(), code, who, "{}: '{}' is not a whole number of 0 or more", path, key);
  return value.get<std::uint64_t>();
}

std::string json_text(const json& object, const char* key, ExitCode code, std::string_view path) {
  const auto& value = member(object, key, code, path);
  MILLRACE_CHECK(value.is_string(), code, who, "{}: '{}' is not a string", path, key);
  return value.get<std::string>();
}

const json& json_array(const json& object, const char* key, ExitCode code, std::string_view path) {
  const auto& value = member(object, key, code, path);
  MILLRACE_CHECK(value.is_array(), code, who, "{}: '{}' is not an array", path, key);
  return value;
}

const json& json_object(const json& object, const char* key, ExitCode code, std::string_view path) {
  const auto& value = member(object, key, code, path);
  MILLRACE_CHECK(value.is_object(), code, who, "{}: '{}' is not an object", path, key);
  return value;
}

}  // namespace millrace::runtime
