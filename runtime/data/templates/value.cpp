#include "runtime/data/templates/value.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/utf8.hpp"

namespace millrace::runtime::templates {
namespace {

constexpr int max_value_depth = 100;                    // nesting of values
constexpr std::size_t max_cost = std::size_t{1} << 27;  // operations, and bytes that are copied

void check_depth(int depth, const Context* context) {
  if (depth <= max_value_depth) return;
  if (context != nullptr) context->fail("values are nested deeper than 100 levels");
  fail(ExitCode::data, "template", "values are nested deeper than {} levels", max_value_depth);
}

/// The contents of a container, to be counted.
struct Contents {
  int depth = 1;
  bool has_namespace = false;
  void add(const Value& value) {
    depth = std::max(depth, value.depth() + 1);
    has_namespace = has_namespace || value.has_namespace();
  }
};

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

/// A text in quotes, as Python spells it.
std::string python_text(std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (const char letter : text) {
    if (letter == '\n')
      out += "\\n";
    else if (letter == '\r')
      out += "\\r";
    else if (letter == '\t')
      out += "\\t";
    else if (letter == '\\' || letter == quote)
      out += {'\\', letter};
    else if (static_cast<unsigned char>(letter) < 32 || letter == 127)
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(letter));
    else
      out += letter;
  }
  return out + quote;
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    switch (letter) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(letter) < 32)
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
        else
          out += letter;
    }
  }
  return out + "\"";
}

class JsonWriter {
 public:
  JsonWriter(std::int64_t indent, Context& context) : indent_(indent), context_(context) {}

  std::string write(const Value& value, std::int64_t level) {
    context_.spend(8);
    if (value.is_none()) return "null";
    if (const auto* boolean = value.as_boolean()) return *boolean ? "true" : "false";
    if (const auto* integer = value.as_integer()) return std::to_string(*integer);
    if (const auto* real = value.as_real())
      return std::isnan(*real) ? "NaN" : std::isinf(*real) ? (*real < 0 ? "-Infinity" : "Infinity") : real_text(*real);
    if (const auto* text = value.as_text()) {
      context_.spend(text->size());
      return json_text(*text);
    }
    if (const auto* list = value.as_list())
      return items('[', ']', list->elements, level, [&](const Value& element) { return write(element, level + 1); });
    if (const auto* mapping = value.as_mapping())
      return items('{', '}', mapping->entries, level,
                   [&](const auto& entry) { return json_text(entry.first) + ": " + write(entry.second, level + 1); });
    context_.fail(fmt::format("tojson of {}, expected a value that JSON has", value.kind()));
  }

 private:
  template <class Items, class Spell>
  std::string items(char open, char close, const Items& all, std::int64_t level, Spell spell) {
    std::string out(1, open);
    const auto line = [&](std::int64_t at) {
      if (indent_ < 0) return;
      context_.spend(static_cast<std::size_t>(indent_ * at));
      out += "\n" + std::string(static_cast<std::size_t>(indent_ * at), ' ');
    };
    bool first = true;
    for (const auto& item : all) {
      if (!first) out += indent_ < 0 ? ", " : ",";
      first = false;
      line(level + 1);
      out += spell(item);
    }
    if (!first) line(level);
    context_.spend(out.size());
    return out + close;
  }

  std::int64_t indent_;
  Context& context_;
};

}  // namespace

void Context::fail(std::string_view message) const { millrace::fail(ExitCode::data, "template", "{}:{}: {}", where_, line, message); }

void Context::spend(std::size_t cost) {
  spent_ += std::min(cost, max_cost);
  if (spent_ > max_cost) fail("the template computes for too long or writes too much; does a loop end?");
}

Value Value::list(std::vector<Value> elements, const Context* context) {
  Contents contents;
  for (const auto& element : elements) contents.add(element);
  check_depth(contents.depth, context);
  return Value(Data(std::make_shared<const List>(List{std::move(elements), contents.depth, contents.has_namespace})));
}

Value Value::mapping(Entries entries, const Context* context) {
  Contents contents;
  for (const auto& [key, value] : entries) contents.add(value);
  check_depth(contents.depth, context);
  return Value(Data(std::make_shared<const Mapping>(Mapping{std::move(entries), contents.depth, contents.has_namespace})));
}

Value Value::namespace_of(Entries entries, const Context& context) {
  // So that values have neither cycles nor unlimited depth.
  for (const auto& [key, value] : entries)
    if (value.has_namespace()) context.fail("a namespace in a namespace, expected another value");
  return Value(Data(std::make_shared<Namespace>(Namespace{std::move(entries)})));
}

Value Value::function(std::string name, Call call, const Value& bound) {
  return Value(
      Data(std::make_shared<const Function>(Function{std::move(name), std::move(call), bound.depth() + 1, bound.has_namespace()})));
}

Value Value::from_json(const OrderedJson& json) {
  if (json.is_null()) return none();
  if (json.is_boolean()) return boolean(json.get<bool>());
  if (json.is_number_integer() && (!json.is_number_unsigned() || json.get<std::uint64_t>() <= INT64_MAX))
    return integer(json.get<std::int64_t>());
  if (json.is_number()) return real(json.get<double>());
  if (json.is_string()) return text(json.get<std::string>());
  if (json.is_array()) {
    std::vector<Value> elements;
    for (const auto& element : json) elements.push_back(from_json(element));
    return list(std::move(elements), nullptr);
  }
  Entries entries;
  for (const auto& [key, value] : json.items()) entries.emplace_back(key, from_json(value));
  return mapping(std::move(entries), nullptr);
}

double Value::number() const {
  if (const auto* value = as_boolean()) return *value ? 1 : 0;
  if (const auto* value = as_integer()) return static_cast<double>(*value);
  return *as_real();
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  if (const auto* value = as_text()) return !value->empty();
  if (const auto* value = as_list()) return !value->elements.empty();
  if (const auto* value = as_mapping()) return !value->entries.empty();
  return true;
}

const char* Value::kind() const {
  constexpr const char* names[] = {"undefined", "None", "bool", "int", "float", "str", "list", "dict", "namespace", "function"};
  return names[data_.index()];
}

int Value::depth() const {
  if (const auto* value = as_list()) return value->depth;
  if (const auto* value = as_mapping()) return value->depth;
  if (const auto* value = as_function()) return value->depth;
  return 0;
}

bool Value::has_namespace() const {
  if (as_namespace() != nullptr) return true;
  if (const auto* value = as_list()) return value->has_namespace;
  if (const auto* value = as_mapping()) return value->has_namespace;
  if (const auto* value = as_function()) return value->has_namespace;
  return false;
}

const Value* Arguments::find(std::size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}

Value Arguments::get(std::size_t position, std::string_view name, Value fallback) const {
  const Value* found = find(position, name);
  return found != nullptr ? *found : std::move(fallback);
}

const Value* find(const Entries& entries, std::string_view key, Context& context) {
  context.spend(entries.size() / 2);
  for (const auto& [name, value] : entries)
    if (name == key) return &value;
  return nullptr;
}

std::string text_of(const Value& value, Context& context) {
  if (value.is_undefined()) return "";
  if (const auto* text = value.as_text()) {
    context.spend(text->size());
    return *text;
  }
  return repr_of(value, context);
}

std::string repr_of(const Value& value, Context& context) {
  context.spend(8);
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (const auto* boolean = value.as_boolean()) return *boolean ? "True" : "False";
  if (const auto* integer = value.as_integer()) return std::to_string(*integer);
  if (const auto* real = value.as_real()) return real_text(*real);
  if (const auto* text = value.as_text()) {
    context.spend(text->size());
    return python_text(*text);
  }
  std::string out;
  if (const auto* list = value.as_list()) {
    for (const auto& element : list->elements) out += (out.empty() ? "" : ", ") + repr_of(element, context);
    context.spend(out.size());
    return "[" + out + "]";
  }
  if (const auto* mapping = value.as_mapping()) {
    for (const auto& [key, entry] : mapping->entries) out += (out.empty() ? "" : ", ") + python_text(key) + ": " + repr_of(entry, context);
    context.spend(out.size());
    return "{" + out + "}";
  }
  return value.as_function() != nullptr ? "<function " + value.as_function()->name + ">" : "<namespace>";
}

std::string json_of(const Value& value, std::int64_t indent, Context& context) { return JsonWriter(indent, context).write(value, 0); }

bool equal(const Value& left, const Value& right, Context& context) {
  context.spend(8);
  if (left.is_number() && right.is_number()) {
    if (left.as_integer() != nullptr && right.as_integer() != nullptr) return *left.as_integer() == *right.as_integer();
    return left.number() == right.number();
  }
  if (left.as_text() != nullptr && right.as_text() != nullptr) {
    context.spend(left.as_text()->size() / 16);
    return *left.as_text() == *right.as_text();
  }
  if (left.is_none() || left.is_undefined()) return left.is_none() ? right.is_none() : right.is_undefined();
  if (const auto* a = left.as_list(), *b = right.as_list(); a != nullptr && b != nullptr)
    return std::equal(a->elements.begin(), a->elements.end(), b->elements.begin(), b->elements.end(),
                      [&](const Value& one, const Value& other) { return equal(one, other, context); });
  if (const auto* a = left.as_mapping(), *b = right.as_mapping(); a != nullptr && b != nullptr) {
    if (a->entries.size() != b->entries.size()) return false;
    return std::all_of(a->entries.begin(), a->entries.end(), [&](const auto& entry) {
      const Value* other = find(b->entries, entry.first, context);
      return other != nullptr && equal(entry.second, *other, context);
    });
  }
  if (left.as_namespace() != nullptr) return left.as_namespace() == right.as_namespace();
  return left.as_function() != nullptr && left.as_function() == right.as_function();
}

int compare(const Value& left, const Value& right, Context& context) {
  context.spend(8);
  if (left.is_number() && right.is_number()) {
    if (left.as_integer() != nullptr && right.as_integer() != nullptr)
      return *left.as_integer() < *right.as_integer() ? -1 : *left.as_integer() > *right.as_integer();
    return left.number() < right.number() ? -1 : left.number() > right.number();
  }
  if (left.as_text() != nullptr && right.as_text() != nullptr) return left.as_text()->compare(*right.as_text());
  context.fail(fmt::format("{} is compared with {}, expected two numbers or two strings", left.kind(), right.kind()));
}

bool contains(const Value& container, const Value& item, Context& context) {
  if (const auto* text = container.as_text()) {
    if (item.as_text() == nullptr) context.fail(fmt::format("{} in a string, expected a string", item.kind()));
    context.spend(text->size() / 16);
    return text->find(*item.as_text()) != std::string::npos;
  }
  if (const auto* mapping = container.as_mapping())
    return item.as_text() != nullptr && find(mapping->entries, *item.as_text(), context) != nullptr;
  if (container.is_undefined()) return false;
  const auto* list = container.as_list();
  if (list == nullptr) context.fail(fmt::format("in {}, expected a list, a mapping or a string", container.kind()));
  return std::any_of(list->elements.begin(), list->elements.end(), [&](const Value& element) { return equal(element, item, context); });
}

std::vector<Value> iterate(const Value& value, Context& context) {
  std::vector<Value> out;
  if (value.is_undefined()) return out;
  if (const auto* list = value.as_list()) {
    out = list->elements;
  } else if (const auto* mapping = value.as_mapping()) {
    for (const auto& [key, entry] : mapping->entries) out.push_back(Value::text(key));
  } else if (const auto* text = value.as_text()) {
    context.spend(text->size());
    for (const auto character : characters_of(*text)) out.push_back(Value::text(std::string(character)));
  } else {
    context.fail(fmt::format("{} is iterated, expected a list, a mapping or a string", value.kind()));
  }
  context.spend(16 * out.size());
  return out;
}

std::int64_t length_of(const Value& value, Context& context) {
  if (value.is_undefined()) return 0;
  if (const auto* list = value.as_list()) return static_cast<std::int64_t>(list->elements.size());
  if (const auto* mapping = value.as_mapping()) return static_cast<std::int64_t>(mapping->entries.size());
  if (const auto* text = value.as_text()) {
    context.spend(4 * text->size());
    return static_cast<std::int64_t>(characters_of(*text).size());
  }
  context.fail(fmt::format("the length of {}, expected a list, a mapping or a string", value.kind()));
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto length = std::max<std::size_t>(1, character_at(text, at).length);
    out.push_back(text.substr(at, length));
    at += length;
  }
  return out;
}

}  // namespace millrace::runtime::templates
