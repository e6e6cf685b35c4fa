#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/io/json_reader.hpp"

/// The values that a template computes with, those of Python: undefined, None, booleans, numbers, texts, lists, mappings, and functions.
/// Values are immutable, except the attributes of a namespace(); copies are cheap. Thread: one rendering belongs to one thread.
namespace millrace::runtime::templates {

class Value;
struct List;
struct Mapping;
struct Namespace;
struct Function;

/// A place in a rendering: errors name it, and what a template may cost is counted here.
class Context {
 public:
  explicit Context(std::string where) : where_(std::move(where)) {}
  int line = 0;

  /// Throws Error(data) "where:line: message".
  [[noreturn]] void fail(std::string_view message) const;
  /// Counts operations and bytes; fails beyond a limit that no sensible template reaches, so that none runs forever.
  void spend(std::size_t cost);

 private:
  std::string where_;
  std::size_t spent_ = 0;
};

class Value {
 public:
  struct Undefined {
    std::string name;  // what was looked up
  };
  struct None {};

  Value() : data_(Undefined{}) {}
  static Value undefined(std::string name) {
    Value value;
    value.data_ = Undefined{std::move(name)};
    return value;
  }
  static Value none() {
    Value value;
    value.data_ = None{};
    return value;
  }
  static Value boolean(bool value) { return Value(Data(value)); }
  static Value integer(std::int64_t value) { return Value(Data(value)); }
  static Value real(double value) { return Value(Data(value)); }
  static Value text(std::string value) { return Value(Data(std::make_shared<const std::string>(std::move(value)))); }
  /// These fail beyond the nesting that is allowed (`context` may be null for values that come from elsewhere).
  static Value list(std::vector<Value> elements, const Context* context);
  static Value mapping(std::vector<std::pair<std::string, Value>> entries, const Context* context);
  static Value namespace_of(std::vector<std::pair<std::string, Value>> entries, const Context& context);
  using Call = std::function<Value(Context&, struct Arguments&)>;
  /// `bound`: the value of which this is a method, or none.
  static Value function(std::string name, Call call, const Value& bound);
  static Value from_json(const OrderedJson& json);

  [[nodiscard]] bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  [[nodiscard]] bool is_none() const { return std::holds_alternative<None>(data_); }
  [[nodiscard]] const bool* as_boolean() const { return std::get_if<bool>(&data_); }
  [[nodiscard]] const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&data_); }
  [[nodiscard]] const double* as_real() const { return std::get_if<double>(&data_); }
  [[nodiscard]] const std::string* as_text() const { return pointer<const std::string>(); }
  [[nodiscard]] const List* as_list() const { return pointer<const List>(); }
  [[nodiscard]] const Mapping* as_mapping() const { return pointer<const Mapping>(); }
  [[nodiscard]] Namespace* as_namespace() const { return pointer<Namespace>(); }
  [[nodiscard]] const Function* as_function() const { return pointer<const Function>(); }

  [[nodiscard]] bool is_number() const { return as_integer() != nullptr || as_real() != nullptr || as_boolean() != nullptr; }
  /// The number as a double; a boolean is 0 or 1.
  [[nodiscard]] double number() const;
  [[nodiscard]] bool truth() const;
  /// The kind, as Python calls it, for messages.
  [[nodiscard]] const char* kind() const;
  /// The number of containers around the innermost value, and whether a namespace is among the contents.
  [[nodiscard]] int depth() const;
  [[nodiscard]] bool has_namespace() const;
  [[nodiscard]] const std::string& undefined_name() const { return std::get<Undefined>(data_).name; }

 private:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>, std::shared_ptr<const List>,
                            std::shared_ptr<const Mapping>, std::shared_ptr<Namespace>, std::shared_ptr<const Function>>;
  explicit Value(Data data) : data_(std::move(data)) {}
  template <class T>
  [[nodiscard]] T* pointer() const {
    const auto* found = std::get_if<std::shared_ptr<T>>(&data_);
    return found != nullptr ? found->get() : nullptr;
  }
  Data data_;
};

struct List {
  std::vector<Value> elements;
  int depth = 1;
  bool has_namespace = false;
};
using Entries = std::vector<std::pair<std::string, Value>>;  // in the order of their insertion
struct Mapping {
  Entries entries;
  int depth = 1;
  bool has_namespace = false;
};
struct Namespace {
  Entries entries;
};
struct Function {
  std::string name;
  Value::Call call;
  int depth = 1;
  bool has_namespace = false;
};

/// The arguments of a call, a filter or a test.
struct Arguments {
  std::vector<Value> positional;
  Entries named;

  /// The argument at a position or with a name; null if it was not given.
  [[nodiscard]] const Value* find(std::size_t position, std::string_view name) const;
  /// The same with a default.
  [[nodiscard]] Value get(std::size_t position, std::string_view name, Value fallback) const;
};

/// The entry with this key; null if there is none.
[[nodiscard]] const Value* find(const Entries& entries, std::string_view key, Context& context);

/// The text that printing gives, as Python's str(), and the spelling within containers, as its repr().
[[nodiscard]] std::string text_of(const Value& value, Context& context);
[[nodiscard]] std::string repr_of(const Value& value, Context& context);
/// JSON as Python's json.dumps() writes it, without escapes for other than ASCII. `indent` below 0: on one line.
[[nodiscard]] std::string json_of(const Value& value, std::int64_t indent, Context& context);

[[nodiscard]] bool equal(const Value& left, const Value& right, Context& context);
/// Below 0, 0 or above 0; fails unless both are numbers or both are texts.
[[nodiscard]] int compare(const Value& left, const Value& right, Context& context);
[[nodiscard]] bool contains(const Value& container, const Value& item, Context& context);
/// The elements of a list, the keys of a mapping, the characters of a text; nothing for undefined. Fails for what cannot be iterated.
[[nodiscard]] std::vector<Value> iterate(const Value& value, Context& context);
/// The number of elements, keys or characters.
[[nodiscard]] std::int64_t length_of(const Value& value, Context& context);

/// The characters of a text; a byte that is not UTF-8 counts as one.
[[nodiscard]] std::vector<std::string_view> characters_of(std::string_view text);

}  // namespace millrace::runtime::templates
