#include "runtime/data/templates/expression_parser.hpp"

#include <algorithm>
#include <charconv>

#include "kernels/base/check.hpp"

namespace millrace::runtime::templates {
namespace {

constexpr int max_nesting = 100;
constexpr int max_tree = 200;  // levels of a tree, to which operators, filters and attributes in a row count too

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ > max_nesting) parser_.context_.fail(fmt::format("nested deeper than {} levels", max_nesting));
}

const Token& ExpressionParser::take() {
  const Token& token = tokens_[at_];
  context_.line = token.line;
  if (token.kind != Token::Kind::end) ++at_;
  return token;
}

bool ExpressionParser::sees(Token::Kind kind, std::string_view text) const {
  return peek().kind == kind && (text.empty() || peek().text == text);
}

bool ExpressionParser::accept_symbol(std::string_view text) {
  const bool there = sees_symbol(text);
  if (there) take();
  return there;
}

bool ExpressionParser::accept_word(std::string_view text) {
  const bool there = sees_word(text);
  if (there) take();
  return there;
}

void ExpressionParser::expect_symbol(std::string_view text) {
  if (!accept_symbol(text)) refuse(text);
}

std::string ExpressionParser::expect_name(const char* what) {
  if (!sees(Token::Kind::name)) refuse(what);
  return take().text;
}

void ExpressionParser::refuse(std::string_view expected) {
  const Token& found = take();
  constexpr const char* names[] = {"text", "{{", "}}", "{%", "%}", "", "a string", "", "", "", "the end of the template"};
  const char* name = names[static_cast<std::size_t>(found.kind)];
  context_.fail(fmt::format("found {}, expected {}", *name == '\0' ? found.text : name, expected));
}

void ExpressionParser::count(Expression& parent, const Expression& part) {
  parent.depth = std::max(parent.depth, part.depth + 1);
  if (parent.depth > max_tree) context_.fail(fmt::format("an expression of more than {} levels", max_tree));
}

void ExpressionParser::adopt(Expression& parent, ExpressionPtr part) {
  if (part) count(parent, *part);
  parent.parts.push_back(std::move(part));
}

ExpressionPtr ExpressionParser::make(Expression::Kind kind, std::string text) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = peek().line;
  made->text = std::move(text);
  return made;
}

ExpressionPtr ExpressionParser::tuple() {
  auto first = expression();
  if (!sees_symbol(",")) return first;
  auto list = make(Expression::Kind::list);
  adopt(*list, std::move(first));
  while (accept_symbol(",")) {
    if (sees(Token::Kind::block_end) || sees(Token::Kind::variable_end) || sees_symbol(")") || sees_symbol("=")) break;
    adopt(*list, expression());
  }
  return list;
}

ExpressionPtr ExpressionParser::expression() {
  const Level level(*this);
  auto value = disjunction();
  while (sees_word("if")) {
    take();
    auto condition = make(Expression::Kind::condition);
    adopt(*condition, disjunction());
    adopt(*condition, std::move(value));
    adopt(*condition, accept_word("else") ? expression() : nullptr);
    value = std::move(condition);
  }
  return value;
}

ExpressionPtr ExpressionParser::left_to_right(Reader operand, std::initializer_list<std::string_view> operators) {
  auto left = (this->*operand)();
  for (;;) {
    const auto found =
        std::find_if(operators.begin(), operators.end(), [&](std::string_view text) { return sees_symbol(text) || sees_word(text); });
    if (found == operators.end()) return left;
    take();
    auto binary = make(Expression::Kind::binary, std::string(*found));
    adopt(*binary, std::move(left));
    adopt(*binary, (this->*operand)());
    left = std::move(binary);
  }
}

ExpressionPtr ExpressionParser::disjunction() { return left_to_right(&ExpressionParser::conjunction, {"or"}); }
ExpressionPtr ExpressionParser::conjunction() { return left_to_right(&ExpressionParser::negation, {"and"}); }
ExpressionPtr ExpressionParser::sum() { return left_to_right(&ExpressionParser::concatenation, {"+", "-"}); }
ExpressionPtr ExpressionParser::concatenation() { return left_to_right(&ExpressionParser::product, {"~"}); }
ExpressionPtr ExpressionParser::product() { return left_to_right(&ExpressionParser::power, {"*", "/", "//", "%"}); }
ExpressionPtr ExpressionParser::power() { return left_to_right(&ExpressionParser::signed_operand, {"**"}); }
ExpressionPtr ExpressionParser::signed_operand() { return unary(true); }

ExpressionPtr ExpressionParser::negation() {
  if (!sees_word("not")) return comparison();
  const Level level(*this);
  take();
  auto made = make(Expression::Kind::unary, "not");
  adopt(*made, negation());
  return made;
}

ExpressionPtr ExpressionParser::comparison() {
  auto first = sum();
  ExpressionPtr made;
  for (;;) {
    std::string name;
    for (const char* symbol : {"==", "!=", "<=", ">=", "<", ">"})
      if (name.empty() && accept_symbol(symbol)) name = symbol;
    if (name.empty() && accept_word("in")) name = "in";
    if (name.empty() && sees_word("not") && tokens_[at_ + 1].kind == Token::Kind::name && tokens_[at_ + 1].text == "in") {
      take();
      take();
      name = "not in";
    }
    if (name.empty()) return made ? std::move(made) : std::move(first);
    if (!made) {
      made = make(Expression::Kind::comparison);
      adopt(*made, std::move(first));
    }
    made->operators.push_back(name);
    adopt(*made, sum());
  }
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Level level(*this);
  ExpressionPtr made;
  if (sees_symbol("-") || sees_symbol("+")) {
    made = make(Expression::Kind::unary, take().text);
    adopt(*made, unary(false));
  } else {
    made = primary();
  }
  made = postfix(std::move(made));
  return with_filters ? filters(std::move(made)) : std::move(made);
}

ExpressionPtr ExpressionParser::name_or_constant() {
  auto made = make(Expression::Kind::literal);
  const std::string name = take().text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    made->value = Value::boolean(name == "true" || name == "True");
  } else if (name == "none" || name == "None") {
    made->value = Value::none();
  } else {
    made->kind = Expression::Kind::name;
    made->text = name;
  }
  return made;
}

ExpressionPtr ExpressionParser::primary() {
  const Token& token = peek();
  if (token.kind == Token::Kind::name) return name_or_constant();
  auto made = make(Expression::Kind::literal);
  if (token.kind == Token::Kind::text) {
    std::string text;
    while (sees(Token::Kind::text)) text += take().text;
    made->value = Value::text(std::move(text));
  } else if (token.kind == Token::Kind::integer) {
    std::int64_t number = 0;
    std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
    made->value = Value::integer(number);
    take();
  } else if (token.kind == Token::Kind::real) {
    double number = 0;
    std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
    made->value = Value::real(number);
    take();
  } else if (accept_symbol("(")) {
    if (accept_symbol(")")) return make(Expression::Kind::list);
    made = tuple();
    expect_symbol(")");
  } else if (accept_symbol("[")) {
    made = sequence("]");
  } else if (accept_symbol("{")) {
    made = mapping();
  } else {
    refuse("a value");
  }
  return made;
}

ExpressionPtr ExpressionParser::sequence(std::string_view close) {
  auto list = make(Expression::Kind::list);
  while (!accept_symbol(close)) {
    if (!list->parts.empty()) {
      expect_symbol(",");
      if (accept_symbol(close)) break;
    }
    adopt(*list, expression());
  }
  return list;
}

ExpressionPtr ExpressionParser::mapping() {
  auto made = make(Expression::Kind::mapping);
  while (!accept_symbol("}")) {
    if (!made->parts.empty()) {
      expect_symbol(",");
      if (accept_symbol("}")) break;
    }
    adopt(*made, expression());
    expect_symbol(":");
    adopt(*made, expression());
  }
  return made;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr subject) {
  for (;;) {
    if (accept_symbol(".")) {
      auto made = make(Expression::Kind::attribute);
      if (sees(Token::Kind::integer)) {
        made->kind = Expression::Kind::subscript;
        adopt(*made, std::move(subject));
        adopt(*made, primary());
      } else {
        made->text = expect_name("the name of an attribute");
        adopt(*made, std::move(subject));
      }
      subject = std::move(made);
    } else if (accept_symbol("[")) {
      subject = subscript(std::move(subject));
    } else if (sees_symbol("(")) {
      subject = call(std::move(subject));
    } else {
      return subject;
    }
  }
}

ExpressionPtr ExpressionParser::call(ExpressionPtr subject) {
  auto made = make(Expression::Kind::call);
  adopt(*made, std::move(subject));
  arguments(*made);
  return made;
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr subject) {
  auto made = make(Expression::Kind::subscript);
  adopt(*made, std::move(subject));
  ExpressionPtr parts[3];
  std::size_t colons = 0;
  for (;;) {
    if (!sees_symbol(":") && !sees_symbol("]")) parts[colons] = expression();
    if (colons == 2 || !accept_symbol(":")) break;
    ++colons;
  }
  expect_symbol("]");
  if (colons > 0) made->kind = Expression::Kind::slice;
  if (colons == 0 && !parts[0]) refuse("a subscript");
  for (std::size_t i = 0; i < (colons == 0 ? 1U : 3U); ++i) adopt(*made, std::move(parts[i]));
  return made;
}

void ExpressionParser::arguments(Expression& call) {
  expect_symbol("(");
  bool first = true;
  while (!accept_symbol(")")) {
    if (!first) {
      expect_symbol(",");
      if (accept_symbol(")")) return;
    }
    first = false;
    if (sees(Token::Kind::name) && tokens_[at_ + 1].kind == Token::Kind::symbol && tokens_[at_ + 1].text == "=") {
      std::string name = take().text;
      take();
      auto value = expression();
      count(call, *value);
      call.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.named.empty()) refuse("a named argument, as after another one");
      adopt(call, expression());
    }
  }
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr subject) {
  for (;;) {
    if (accept_symbol("|")) {
      auto made = make(Expression::Kind::filter);
      made->text = expect_name("the name of a filter");
      adopt(*made, std::move(subject));
      if (sees_symbol("(")) arguments(*made);
      subject = std::move(made);
    } else if (accept_word("is")) {
      subject = test(std::move(subject));
    } else if (sees_symbol("(") && subject) {
      subject = call(std::move(subject));
    } else {
      return subject;
    }
  }
}

ExpressionPtr ExpressionParser::test(ExpressionPtr subject) {
  const bool negated = accept_word("not");
  auto made = make(Expression::Kind::test);
  made->text = expect_name("the name of a test");
  adopt(*made, std::move(subject));
  const bool word = sees(Token::Kind::name) && !sees_word("else") && !sees_word("or") && !sees_word("and") && !sees_word("is") &&
                    !sees_word("if") && !sees_word("not") && !sees_word("in");
  if (sees_symbol("(")) {
    arguments(*made);
  } else if (word || sees(Token::Kind::text) || sees(Token::Kind::integer) || sees(Token::Kind::real) || sees_symbol("[") ||
             sees_symbol("{")) {
    adopt(*made, postfix(primary()));
  }
  if (!negated) return made;
  auto negation = make(Expression::Kind::unary, "not");
  adopt(*negation, std::move(made));
  return negation;
}

}  // namespace millrace::runtime::templates
