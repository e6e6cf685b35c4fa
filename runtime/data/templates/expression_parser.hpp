#pragma once

#include <string_view>
#include <vector>

#include "runtime/data/templates/lexer.hpp"
#include "runtime/data/templates/syntax.hpp"

namespace millrace::runtime::templates {

/// Reads expressions from tokens, with Jinja's precedence: if-else, or, and, not, comparisons, + -, ~, * / // %, **, signs, then
/// attributes, calls, filters and tests.
class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, Context& context) : tokens_(std::move(tokens)), context_(context) {}

  [[nodiscard]] const Token& peek() const { return tokens_[at_]; }
  const Token& take();
  [[nodiscard]] bool sees(Token::Kind kind, std::string_view text = {}) const;
  [[nodiscard]] bool sees_symbol(std::string_view text) const { return sees(Token::Kind::symbol, text); }
  [[nodiscard]] bool sees_word(std::string_view text) const { return sees(Token::Kind::name, text); }
  bool accept_symbol(std::string_view text);
  bool accept_word(std::string_view text);
  void expect_symbol(std::string_view text);
  std::string expect_name(const char* what);
  [[noreturn]] void refuse(std::string_view expected);

  /// An expression; with `tuple` also several, separated by commas, as a list.
  ExpressionPtr expression();
  ExpressionPtr tuple();
  /// An expression without if-else, as it stands before the filter of a loop.
  ExpressionPtr disjunction();
  /// The filters that follow, applied to `subject` (null: to be filled in).
  ExpressionPtr filters(ExpressionPtr subject);

  /// Counts a level of nesting while it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  ExpressionPtr make(Expression::Kind kind, std::string text = {}) const;
  /// Adds a part to a node, and counts the levels of the tree.
  void adopt(Expression& parent, ExpressionPtr part);
  void count(Expression& parent, const Expression& part);
  using Reader = ExpressionPtr (ExpressionParser::*)();
  ExpressionPtr left_to_right(Reader operand, std::initializer_list<std::string_view> operators);
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr signed_operand();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr name_or_constant();
  ExpressionPtr sequence(std::string_view close);
  ExpressionPtr mapping();
  ExpressionPtr postfix(ExpressionPtr subject);
  ExpressionPtr call(ExpressionPtr subject);
  ExpressionPtr subscript(ExpressionPtr subject);
  ExpressionPtr test(ExpressionPtr subject);
  void arguments(Expression& call);

  std::vector<Token> tokens_;
  Context& context_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace millrace::runtime::templates
