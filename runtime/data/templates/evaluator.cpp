#include "runtime/data/templates/evaluator.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"
#include "runtime/data/templates/builtins.hpp"

namespace millrace::runtime::templates {
namespace {

constexpr int max_levels = 1500;                          // levels of statements and expressions in execution: they are on the stack
constexpr std::size_t max_output = std::size_t{1} << 25;  // bytes

}  // namespace

class Evaluator::Level {
 public:
  explicit Level(Evaluator& evaluator) : evaluator_(evaluator) {
    evaluator_.context_.spend(8);
    if (++evaluator_.depth_ > max_levels) evaluator_.context_.fail("calls are nested too deeply; does a macro call itself without end?");
  }
  ~Level() { --evaluator_.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Evaluator& evaluator_;
};

Evaluator::Evaluator(Entries variables, Context& context) : context_(context) {
  scopes_.push_back(functions());
  scopes_.push_back(std::move(variables));
}

void Evaluator::run(const Body& body, std::string& out) { execute(body, out); }

void Evaluator::append(std::string& out, std::string_view text) {
  context_.spend(text.size());
  if (out.size() + text.size() > max_output) context_.fail("the template writes more than 32 MiB");
  out += text;
}

// -- statements ---------------------------------------------------------------------------------------------------------------------------

Evaluator::Flow Evaluator::execute(const Body& body, std::string& out) {
  const Level level(*this);
  for (const auto& statement : body)
    if (const Flow flow = execute(statement, out); flow != Flow::on) return flow;
  return Flow::on;
}

Evaluator::Flow Evaluator::execute(const Statement& statement, std::string& out) {
  context_.line = statement.line;
  switch (statement.kind) {
    case Statement::Kind::data:
      append(out, statement.text);
      return Flow::on;
    case Statement::Kind::print:
      append(out, text_of(evaluate(*statement.value), context_));
      return Flow::on;
    case Statement::Kind::condition:
      return execute(evaluate(*statement.value).truth() ? statement.body : statement.other, out);
    case Statement::Kind::loop:
      return loop(statement, out);
    case Statement::Kind::set:
      assign(statement, evaluate(*statement.value));
      return Flow::on;
    case Statement::Kind::set_block: {
      std::string text;
      scopes_.emplace_back();
      const Flow flow = execute(statement.body, text);
      scopes_.pop_back();
      if (flow != Flow::on) return flow;  // a loop is left, or its next iteration begins, before the block ends
      const Value block = Value::text(std::move(text));
      set(statement.targets[0], statement.value ? filtered(*statement.value, &block) : block);
      return Flow::on;
    }
    case Statement::Kind::macro:
      define(statement);
      return Flow::on;
    case Statement::Kind::block:
      return execute(statement.body, out);
    case Statement::Kind::leave:
      return Flow::leave;
    case Statement::Kind::next:
      return Flow::next;
  }
  return Flow::on;
}

void Evaluator::assign(const Statement& statement, const Value& value) {
  if (statement.text.empty()) return bind(statement.targets, value);
  auto* space = look_up(statement.text).as_namespace();
  if (space == nullptr)
    context_.fail(fmt::format("{}.{} is set, expected {} to be a namespace()", statement.text, statement.targets[0], statement.text));
  if (value.has_namespace()) context_.fail("a namespace in a namespace, expected another value");
  const auto found =
      std::find_if(space->entries.begin(), space->entries.end(), [&](const auto& entry) { return entry.first == statement.targets[0]; });
  if (found == space->entries.end()) {
    space->entries.emplace_back(statement.targets[0], value);
  } else {
    found->second = value;
  }
}

void Evaluator::bind(const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) return set(targets[0], value);
  const auto parts = iterate(value, context_);
  if (parts.size() != targets.size()) context_.fail(fmt::format("{} values for {} names", parts.size(), targets.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) set(targets[i], parts[i]);
}

void Evaluator::set(const std::string& name, Value value) {
  for (auto& [key, old] : scopes_.back())
    if (key == name) {
      old = std::move(value);
      return;
    }
  scopes_.back().emplace_back(name, std::move(value));
}

Value Evaluator::look_up(const std::string& name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const Value* found = find(*scope, name, context_)) return *found;
  return Value::undefined(name);
}

Evaluator::Flow Evaluator::loop(const Statement& statement, std::string& out) {
  auto elements = iterate(evaluate(*statement.value), context_);
  if (statement.filter) {
    std::vector<Value> kept;
    scopes_.emplace_back();
    for (const auto& element : elements) {
      bind(statement.targets, element);
      if (evaluate(*statement.filter).truth()) kept.push_back(element);
    }
    scopes_.pop_back();
    elements = std::move(kept);
  }
  if (elements.empty()) return execute(statement.other, out);
  const auto count = static_cast<std::int64_t>(elements.size());
  Flow flow = Flow::on;
  for (std::int64_t i = 0; i < count && flow != Flow::leave; ++i) {
    const auto at = [&](std::int64_t index) {
      return index >= 0 && index < count ? elements[static_cast<std::size_t>(index)] : Value::undefined("loop.previtem or loop.nextitem");
    };
    context_.line = statement.line;
    context_.spend(128);  // what an iteration makes: the fields of `loop`, and a scope
    Entries fields{{"index", Value::integer(i + 1)},
                   {"index0", Value::integer(i)},
                   {"first", Value::boolean(i == 0)},
                   {"last", Value::boolean(i + 1 == count)},
                   {"length", Value::integer(count)},
                   {"revindex", Value::integer(count - i)},
                   {"revindex0", Value::integer(count - i - 1)},
                   {"previtem", at(i - 1)},
                   {"nextitem", at(i + 1)}};
    scopes_.push_back({{"loop", Value::mapping(std::move(fields), &context_)}});
    bind(statement.targets, at(i));
    flow = execute(statement.body, out);
    scopes_.pop_back();
  }
  return Flow::on;
}

void Evaluator::define(const Statement& macro) {
  set(macro.text, Value::function(
                      macro.text, [this, &macro](Context&, Arguments& given) { return call_macro(macro, given); }, Value::none()));
}

Value Evaluator::call_macro(const Statement& macro, Arguments& arguments) {
  if (arguments.positional.size() > macro.parameters.size())
    context_.fail(fmt::format("{} arguments for the macro {}, expected {} at most", arguments.positional.size(), macro.text,
                              macro.parameters.size()));
  for (const auto& [name, value] : arguments.named)
    if (std::none_of(macro.parameters.begin(), macro.parameters.end(),
                     [&key = name](const auto& parameter) { return parameter.name == key; }))
      context_.fail(fmt::format("the macro {} has no parameter {}", macro.text, name));
  const int line = context_.line;
  // A macro sees the functions, what the whole template sees, and its parameters.
  constexpr std::ptrdiff_t visible = 2;
  std::vector<Entries> outer(std::make_move_iterator(scopes_.begin() + visible), std::make_move_iterator(scopes_.end()));
  scopes_.resize(visible);
  scopes_.emplace_back();
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& parameter = macro.parameters[i];
    const Value* given = arguments.find(i, parameter.name);
    set(parameter.name, given != nullptr ? *given : parameter.initial ? evaluate(*parameter.initial) : Value::undefined(parameter.name));
  }
  std::string out;
  execute(macro.body, out);
  scopes_.resize(visible);
  scopes_.insert(scopes_.end(), std::make_move_iterator(outer.begin()), std::make_move_iterator(outer.end()));
  context_.line = line;
  return Value::text(std::move(out));
}

// -- expressions --------------------------------------------------------------------------------------------------------------------------

Value Evaluator::evaluate(const Expression& expression) {
  const Level level(*this);
  context_.line = expression.line;
  return evaluate_node(expression);
}

Value Evaluator::evaluate_or_none(const ExpressionPtr& expression) { return expression ? evaluate(*expression) : Value::none(); }

Value Evaluator::evaluate_node(const Expression& expression) {
  const auto& parts = expression.parts;
  switch (expression.kind) {
    case Expression::Kind::literal:
      return expression.value;
    case Expression::Kind::name:
      return look_up(expression.text);
    case Expression::Kind::list: {
      std::vector<Value> elements;
      for (const auto& part : parts) elements.push_back(evaluate(*part));
      return Value::list(std::move(elements), &context_);
    }
    case Expression::Kind::mapping:
      return mapping(expression);
    case Expression::Kind::attribute:
      return attribute(evaluate(*parts[0]), expression.text);
    case Expression::Kind::subscript: {
      const Value subject = evaluate(*parts[0]), key = evaluate(*parts[1]);
      context_.line = expression.line;
      Value found = element_of(subject, key, context_);
      return found.is_undefined() && key.as_text() != nullptr ? method_of(subject, *key.as_text(), context_) : found;
    }
    case Expression::Kind::slice: {
      const Value subject = evaluate(*parts[0]), first = evaluate_or_none(parts[1]), last = evaluate_or_none(parts[2]);
      return slice_of(subject, first, last, evaluate_or_none(parts[3]), context_);
    }
    case Expression::Kind::call:
      return call(expression);
    case Expression::Kind::filter:
      return filtered(expression, nullptr);
    case Expression::Kind::test: {
      const Value subject = evaluate(*parts[0]);
      auto given = arguments(expression);
      return Value::boolean(apply_test(expression.text, subject, given, context_));
    }
    case Expression::Kind::unary: {
      const Value operand = evaluate(*parts[0]);
      if (expression.text == "not") return Value::boolean(!operand.truth());
      return expression.text == "+" ? operand : arithmetic("-", Value::integer(0), operand);
    }
    case Expression::Kind::binary:
      return binary(expression);
    case Expression::Kind::comparison:
      return Value::boolean(compared(expression));
    case Expression::Kind::condition:
      if (evaluate(*parts[0]).truth()) return evaluate(*parts[1]);
      return parts[2] ? evaluate(*parts[2]) : Value::undefined("the value of an if without else");
  }
  return {};
}

Value Evaluator::mapping(const Expression& expression) {
  Entries entries;
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    const Value key = evaluate(*expression.parts[i]);
    if (key.as_text() == nullptr) context_.fail(fmt::format("the key {} of a mapping, expected a string", repr_of(key, context_)));
    Value value = evaluate(*expression.parts[i + 1]);
    const auto same = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.first == *key.as_text(); });
    if (same != entries.end()) {
      same->second = std::move(value);
    } else {
      entries.emplace_back(*key.as_text(), std::move(value));
    }
  }
  return Value::mapping(std::move(entries), &context_);
}

Value Evaluator::attribute(const Value& subject, const std::string& name) {
  if (subject.is_undefined()) context_.fail(fmt::format("{} is undefined, and so has no {}", subject.undefined_name(), name));
  Value method = method_of(subject, name, context_);
  return method.is_undefined() ? element_of(subject, Value::text(name), context_) : method;
}

Arguments Evaluator::arguments(const Expression& expression) {
  Arguments given;
  for (std::size_t i = 1; i < expression.parts.size(); ++i) given.positional.push_back(evaluate(*expression.parts[i]));
  for (const auto& [name, part] : expression.named) given.named.emplace_back(name, evaluate(*part));
  context_.line = expression.line;
  return given;
}

Value Evaluator::call(const Expression& expression) {
  const Value callee = evaluate(*expression.parts[0]);
  auto given = arguments(expression);
  if (callee.is_undefined()) context_.fail(fmt::format("{} is undefined, and so cannot be called", callee.undefined_name()));
  if (callee.as_function() == nullptr) context_.fail(fmt::format("{} is called, expected a function", callee.kind()));
  return callee.as_function()->call(context_, given);
}

Value Evaluator::filtered(const Expression& expression, const Value* block_text) {
  const auto& subject = expression.parts[0];
  const Value value = !subject                                                             ? *block_text
                      : block_text != nullptr && subject->kind == Expression::Kind::filter ? filtered(*subject, block_text)
                                                                                           : evaluate(*subject);
  auto given = arguments(expression);
  return apply_filter(expression.text, value, given, context_);
}

Value Evaluator::binary(const Expression& expression) {
  const std::string& name = expression.text;
  Value left = evaluate(*expression.parts[0]);
  if (name == "and") return left.truth() ? evaluate(*expression.parts[1]) : left;
  if (name == "or") return left.truth() ? left : evaluate(*expression.parts[1]);
  const Value right = evaluate(*expression.parts[1]);
  context_.line = expression.line;
  if (name == "~") return Value::text(text_of(left, context_) + text_of(right, context_));
  return arithmetic(name, left, right);
}

Value Evaluator::arithmetic(const std::string& name, const Value& left, const Value& right) {
  const auto *a = left.as_text(), *b = right.as_text();
  if (name == "+" && a != nullptr && b != nullptr) {
    context_.spend(a->size() + b->size());
    return Value::text(*a + *b);
  }
  if (name == "+" && left.as_list() != nullptr && right.as_list() != nullptr) {
    auto elements = iterate(left, context_);
    for (auto& element : iterate(right, context_)) elements.push_back(std::move(element));
    return Value::list(std::move(elements), &context_);
  }
  if (name == "*" && a != nullptr && right.as_integer() != nullptr) {
    std::string out;
    for (std::int64_t i = 0; i < *right.as_integer(); ++i) {
      context_.spend(a->size() + 1);
      out += *a;
    }
    return Value::text(std::move(out));
  }
  if (!left.is_number() || !right.is_number()) {
    for (const Value* side : {&left, &right})
      if (side->is_undefined()) context_.fail(fmt::format("{} is undefined, expected a value for {}", side->undefined_name(), name));
    context_.fail(fmt::format("{} {} {}, expected two numbers, or two strings or lists for +", left.kind(), name, right.kind()));
  }
  const double x = left.number(), y = right.number();
  if (y == 0 && (name == "/" || name == "//" || name == "%")) context_.fail("a division by zero");
  const double floor_quotient = name == "//" || name == "%" ? std::floor(x / y) : 0;
  const double real = name == "+"    ? x + y
                      : name == "-"  ? x - y
                      : name == "*"  ? x * y
                      : name == "/"  ? x / y
                      : name == "//" ? floor_quotient
                      : name == "%"  ? x - floor_quotient * y
                                     : std::pow(x, y);
  const bool whole = left.as_real() == nullptr && right.as_real() == nullptr && name != "/" && (name != "**" || y >= 0);
  constexpr double exact = 9007199254740992.0;  // integers up to here are exact as doubles
  if (!whole) return Value::real(real);
  if (std::abs(real) > exact || std::abs(x) > exact || std::abs(y) > exact) context_.fail(fmt::format("an integer beyond {:.0f}", exact));
  return Value::integer(static_cast<std::int64_t>(real));
}

bool Evaluator::compared(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1]);
    context_.line = expression.line;
    const std::string& name = expression.operators[i];
    bool holds = false;
    if (name == "==" || name == "!=") {
      holds = equal(left, right, context_) == (name == "==");
    } else if (name == "in" || name == "not in") {
      holds = contains(right, left, context_) == (name == "in");
    } else {
      const int order = compare(left, right, context_);
      holds = name == "<" ? order < 0 : name == "<=" ? order <= 0 : name == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

}  // namespace millrace::runtime::templates
