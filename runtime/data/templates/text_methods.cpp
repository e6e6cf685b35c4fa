#include <algorithm>
#include <map>

#include "kernels/base/check.hpp"
#include "runtime/data/templates/builtins.hpp"
#include "runtime/data/tokenizers/unicode.hpp"
#include "runtime/data/tokenizers/utf8.hpp"

namespace millrace::runtime::templates {
namespace {

/// The text of an argument.
const std::string& text_argument(const Arguments& arguments, std::size_t position, std::string_view name, Context& context) {
  const Value* found = arguments.find(position, name);
  if (found == nullptr || found->as_text() == nullptr)
    context.fail(fmt::format("the argument {} is {}, expected a string", position + 1, found == nullptr ? "missing" : found->kind()));
  return *found->as_text();
}

std::int64_t integer_argument(const Arguments& arguments, std::size_t position, std::string_view name, std::int64_t fallback,
                              Context& context) {
  const Value* found = arguments.find(position, name);
  if (found == nullptr) return fallback;
  if (found->as_integer() == nullptr) context.fail(fmt::format("the argument {} is {}, expected an integer", position + 1, found->kind()));
  return *found->as_integer();
}

Value split(const std::string& text, const Arguments& arguments, Context& context) {
  const Value* separator = arguments.find(0, "sep");
  std::int64_t most = integer_argument(arguments, 1, "maxsplit", -1, context);
  std::vector<Value> parts;
  const auto add = [&](std::string_view part) { parts.push_back(Value::text(std::string(part))); };
  context.spend(text.size());
  if (separator == nullptr || separator->is_none()) {
    std::string_view rest = text;
    for (;;) {
      const std::string trimmed = stripped(rest, "", true, false);
      rest = rest.substr(rest.size() - trimmed.size());
      if (rest.empty()) break;
      const std::size_t end = most == 0 ? std::string_view::npos : rest.find_first_of(" \t\n\r\f\v");
      if (end == std::string_view::npos) {
        add(most == 0 ? stripped(rest, "", false, true) : rest);
        break;
      }
      add(rest.substr(0, end));
      rest = rest.substr(end);
      --most;
    }
    return Value::list(std::move(parts), &context);
  }
  const std::string& by = text_argument(arguments, 0, "sep", context);
  if (by.empty()) context.fail("split with an empty separator");
  std::size_t from = 0;
  for (std::size_t at = text.find(by); at != std::string::npos && most != 0; at = text.find(by, from), --most) {
    add(std::string_view(text).substr(from, at - from));
    from = at + by.size();
  }
  add(std::string_view(text).substr(from));
  context.spend(64 * parts.size());
  return Value::list(std::move(parts), &context);
}

Value split_lines(const std::string& text, Context& context) {
  std::vector<Value> lines;
  context.spend(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    context.spend(64);
    lines.push_back(Value::text(text.substr(at, end - at)));
    at = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return Value::list(std::move(lines), &context);
}

Value replace(const std::string& text, const Arguments& arguments, Context& context) {
  const std::string &old = text_argument(arguments, 0, "old", context), &fresh = text_argument(arguments, 1, "new", context);
  std::int64_t most = integer_argument(arguments, 2, "count", -1, context);
  std::string out;
  std::size_t from = 0;
  context.spend(text.size());
  while (most != 0 && from <= text.size()) {
    const std::size_t at = text.find(old, from);
    if (at == std::string::npos) break;
    context.spend(fresh.size() + 1);
    out.append(text, from, at - from).append(fresh);
    from = at + old.size();
    --most;
    if (!old.empty()) continue;
    // An empty text is between all characters.
    if (from == text.size()) return Value::text(std::move(out));
    const auto length = std::max<std::size_t>(1, character_at(text, from).length);
    out.append(text, from, length);
    from += length;
  }
  return Value::text(from < text.size() ? out.append(text, from, std::string::npos) : out);
}

bool starts_or_ends(const std::string& text, const Arguments& arguments, bool starts, Context& context) {
  const auto one = [&](const Value& affix) {
    if (affix.as_text() == nullptr) context.fail(fmt::format("startswith or endswith with {}, expected a string", affix.kind()));
    return starts ? text.starts_with(*affix.as_text()) : text.ends_with(*affix.as_text());
  };
  const Value affix = arguments.get(0, "prefix", Value());
  if (affix.as_list() == nullptr) return one(affix);
  return std::any_of(affix.as_list()->elements.begin(), affix.as_list()->elements.end(), one);
}

std::string capitalized(const std::string& text) {
  const auto characters = characters_of(text);
  return characters.empty() ? "" : upper_case(characters[0]) + lower_case(std::string_view(text).substr(characters[0].size()));
}

std::string titled(const std::string& text) {
  std::string out;
  bool within = false;
  for (const auto character : characters_of(text)) {
    const auto code = character_at(character, 0);
    const bool is_letter = code.length > 0 && (character_classes()[code.code] & letter) != 0;
    out += is_letter ? (within ? lower_case(character) : upper_case(character)) : std::string(character);
    within = is_letter;
  }
  return out;
}

/// The number of characters before the first occurrence, or -1.
std::int64_t index_of(const std::string& text, std::size_t at, Context& context) {
  return at == std::string::npos ? -1 : length_of(Value::text(text.substr(0, at)), context);
}

std::int64_t count_of(const std::string& text, const std::string& part) {
  if (part.empty()) return static_cast<std::int64_t>(characters_of(text).size()) + 1;
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

bool all_of_class(const std::string& text, std::uint8_t character_class) {
  if (text.empty()) return false;
  for (const auto character : characters_of(text)) {
    const auto code = character_at(character, 0);
    if (code.length == 0 || (character_classes()[code.code] & character_class) == 0) return false;
  }
  return true;
}

using Method = Value (*)(const std::string& text, const Arguments& arguments, Context& context);

Value strip(const std::string& text, const Arguments& arguments, bool left, bool right, Context& context) {
  const Value* characters = arguments.find(0, "chars");
  const bool given = characters != nullptr && !characters->is_none();
  return Value::text(stripped(text, given ? text_argument(arguments, 0, "chars", context) : "", left, right));
}

const std::map<std::string_view, Method>& text_methods() {
  static const std::map<std::string_view, Method> methods{
      {"strip", [](const auto& text, const auto& given, auto& context) { return strip(text, given, true, true, context); }},
      {"lstrip", [](const auto& text, const auto& given, auto& context) { return strip(text, given, true, false, context); }},
      {"rstrip", [](const auto& text, const auto& given, auto& context) { return strip(text, given, false, true, context); }},
      {"split", split},
      {"splitlines", [](const auto& text, const auto&, auto& context) { return split_lines(text, context); }},
      {"replace", replace},
      {"startswith",
       [](const auto& text, const auto& given, auto& context) { return Value::boolean(starts_or_ends(text, given, true, context)); }},
      {"endswith",
       [](const auto& text, const auto& given, auto& context) { return Value::boolean(starts_or_ends(text, given, false, context)); }},
      {"removeprefix",
       [](const auto& text, const auto& given, auto& context) {
         const auto& prefix = text_argument(given, 0, "prefix", context);
         return Value::text(text.starts_with(prefix) ? text.substr(prefix.size()) : text);
       }},
      {"removesuffix",
       [](const auto& text, const auto& given, auto& context) {
         const auto& suffix = text_argument(given, 0, "suffix", context);
         return Value::text(text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text);
       }},
      {"upper", [](const auto& text, const auto&, auto&) { return Value::text(upper_case(text)); }},
      {"lower", [](const auto& text, const auto&, auto&) { return Value::text(lower_case(text)); }},
      {"capitalize", [](const auto& text, const auto&, auto&) { return Value::text(capitalized(text)); }},
      {"title", [](const auto& text, const auto&, auto&) { return Value::text(titled(text)); }},
      {"find", [](const auto& text, const auto& given,
                  auto& context) { return Value::integer(index_of(text, text.find(text_argument(given, 0, "sub", context)), context)); }},
      {"rfind", [](const auto& text, const auto& given,
                   auto& context) { return Value::integer(index_of(text, text.rfind(text_argument(given, 0, "sub", context)), context)); }},
      {"count", [](const auto& text, const auto& given,
                   auto& context) { return Value::integer(count_of(text, text_argument(given, 0, "sub", context))); }},
      {"isdigit", [](const auto& text, const auto&, auto&) { return Value::boolean(all_of_class(text, number)); }},
      {"isalpha", [](const auto& text, const auto&, auto&) { return Value::boolean(all_of_class(text, letter)); }},
      {"isspace", [](const auto& text, const auto&, auto&) { return Value::boolean(all_of_class(text, space)); }},
      {"join", [](const auto& text, const auto& given, auto& context) {
         Arguments separator{{Value::text(text)}, {}};
         return apply_filter("join", given.get(0, "iterable", Value()), separator, context);
       }}};
  return methods;
}

using MappingMethod = Value (*)(const Value& mapping, const Arguments& arguments, Context& context);

const std::map<std::string_view, MappingMethod>& mapping_methods() {
  static const std::map<std::string_view, MappingMethod> methods{
      {"items",
       [](const auto& mapping, const auto&, auto& context) {
         Arguments none;
         return apply_filter("items", mapping, none, context);
       }},
      {"keys", [](const auto& mapping, const auto&, auto& context) { return Value::list(iterate(mapping, context), &context); }},
      {"values",
       [](const auto& mapping, const auto&, auto& context) {
         std::vector<Value> values;
         for (const auto& entry : mapping.as_mapping()->entries) values.push_back(entry.second);
         context.spend(values.size());
         return Value::list(std::move(values), &context);
       }},
      {"get", [](const auto& mapping, const auto& given, auto& context) {
         const Value key = given.get(0, "key", Value());
         const Value* found = key.as_text() != nullptr ? find(mapping.as_mapping()->entries, *key.as_text(), context) : nullptr;
         return found != nullptr ? *found : given.get(1, "default", Value::none());
       }}};
  return methods;
}

}  // namespace

std::string stripped(std::string_view text, std::string_view characters, bool left, bool right) {
  const auto all = characters_of(text);
  const auto set = characters_of(characters);
  const auto drops = [&](std::string_view character) {
    if (!characters.empty()) return std::find(set.begin(), set.end(), character) != set.end();
    const auto code = character_at(character, 0);
    // Python counts the separators U+001C to U+001F as white space too.
    return code.length > 0 && ((character_classes()[code.code] & space) != 0 || (code.code >= 0x1c && code.code <= 0x1f));
  };
  auto begin = all.begin(), end = all.end();
  while (left && begin != end && drops(*begin)) ++begin;
  while (right && begin != end && drops(*(end - 1))) --end;
  std::size_t first = 0, size = 0;
  for (auto at = all.begin(); at != begin; ++at) first += at->size();
  for (auto at = begin; at != end; ++at) size += at->size();
  return std::string(text.substr(first, size));
}

Value method_of(const Value& subject, const std::string& name, Context& context) {
  if (subject.as_text() != nullptr) {
    const auto found = text_methods().find(name);
    if (found == text_methods().end()) return Value::undefined(name);
    return Value::function(
        name,
        [subject, method = found->second](Context& at, Arguments& arguments) {
          at.spend(4 * subject.as_text()->size());
          return method(*subject.as_text(), arguments, at);
        },
        subject);
  }
  if (subject.as_mapping() == nullptr) return Value::undefined(name);
  const auto found = mapping_methods().find(name);
  if (found == mapping_methods().end()) return Value::undefined(name);
  context.spend(1);
  return Value::function(
      name, [subject, method = found->second](Context& at, Arguments& arguments) { return method(subject, arguments, at); }, subject);
}

}  // namespace millrace::runtime::templates
