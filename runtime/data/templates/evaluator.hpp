#pragma once

#include <string>
#include <vector>

#include "runtime/data/templates/syntax.hpp"

namespace millrace::runtime::templates {

/// Runs a template's tree once. Names are looked up from the innermost scope outwards: the body of a loop and a macro have scopes of their
/// own, so what is set there is gone afterwards, as in Jinja.
class Evaluator {
 public:
  Evaluator(Entries variables, Context& context);

  void run(const Body& body, std::string& out);

 private:
  enum class Flow : std::uint8_t { on, leave, next };  // what follows a statement

  Flow execute(const Body& body, std::string& out);
  Flow execute(const Statement& statement, std::string& out);
  Flow loop(const Statement& statement, std::string& out);
  void assign(const Statement& statement, const Value& value);
  void bind(const std::vector<std::string>& targets, const Value& value);
  void define(const Statement& macro);
  Value call_macro(const Statement& macro, Arguments& arguments);
  void append(std::string& out, std::string_view text);

  Value evaluate(const Expression& expression);
  Value evaluate_node(const Expression& expression);
  Value evaluate_or_none(const ExpressionPtr& expression);
  Value mapping(const Expression& expression);
  Value attribute(const Value& subject, const std::string& name);
  Value call(const Expression& expression);
  Value filtered(const Expression& expression, const Value* block_text);
  Value binary(const Expression& expression);
  Value arithmetic(const std::string& name, const Value& left, const Value& right);
  bool compared(const Expression& expression);
  Arguments arguments(const Expression& expression);
  [[nodiscard]] Value look_up(const std::string& name);
  void set(const std::string& name, Value value);

  class Level;
  Context& context_;
  std::vector<Entries> scopes_;
  int depth_ = 0;
};

}  // namespace millrace::runtime::templates
