#include "runtime/data/templates/parser.hpp"

#include <initializer_list>

#include "kernels/base/check.hpp"
#include "runtime/data/templates/expression_parser.hpp"

namespace millrace::runtime::templates {
namespace {

class Parser {
 public:
  Parser(std::string_view text, Context& context) : in_(tokens_of(text, context), context), context_(context) {}

  Body run() { return body({}, ""); }

 private:
  /// Statements up to one of the tags in `ends`, which is read except for its "%}" and noted in end_. Without `ends`: up to the end.
  Body body(std::initializer_list<std::string_view> ends, std::string_view opened) {
    const ExpressionParser::Level level(in_);
    const int begin = context_.line;
    Body made;
    for (;;) {
      if (in_.sees(Token::Kind::end)) {
        if (ends.size() == 0) return made;
        context_.line = begin;
        context_.fail(fmt::format("{} without end, expected {{% {} %}}", opened, *(ends.end() - 1)));
      }
      const Token token = in_.take();
      if (token.kind == Token::Kind::data) {
        made.push_back(statement(Statement::Kind::data));
        made.back().text = token.text;
      } else if (token.kind == Token::Kind::variable_begin) {
        made.push_back(statement(Statement::Kind::print));
        made.back().value = in_.tuple();
        if (!in_.sees(Token::Kind::variable_end)) in_.refuse("}}");
        in_.take();
      } else {
        end_ = in_.expect_name("the name of a statement");
        for (const auto& end : ends)
          if (end_ == end) return made;
        made.push_back(tag(end_));
      }
    }
  }

  Statement statement(Statement::Kind kind) const {
    Statement made;
    made.kind = kind;
    made.line = context_.line;
    return made;
  }

  void end_of_tag() {
    if (!in_.sees(Token::Kind::block_end)) in_.refuse("%}");
    in_.take();
  }

  Statement tag(const std::string& name) {
    if (name == "if") return condition();
    if (name == "for") return loop();
    if (name == "set") return set();
    if (name == "macro") return macro();
    if (name == "generation") {  // marks what an assistant wrote, for masks of training
      auto made = statement(Statement::Kind::block);
      end_of_tag();
      made.body = body({"endgeneration"}, name);
      end_of_tag();
      return made;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) context_.fail(name + " outside of a loop");
      auto made = statement(name == "break" ? Statement::Kind::leave : Statement::Kind::next);
      end_of_tag();
      return made;
    }
    context_.fail(fmt::format(
        "the statement {}, expected one of: if, elif, else, endif, for, endfor, set, endset, macro, endmacro, generation, break, "
        "continue, raw",
        name));
  }

  Statement condition() {
    auto made = statement(Statement::Kind::condition);
    made.value = in_.tuple();
    end_of_tag();
    made.body = body({"elif", "else", "endif"}, "if");
    if (end_ == "elif") {
      const ExpressionParser::Level level(in_);
      made.other.push_back(condition());  // reads the endif of all
      return made;
    }
    if (end_ == "else") {
      end_of_tag();
      made.other = body({"endif"}, "if");
    }
    end_of_tag();
    return made;
  }

  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool bracket = in_.accept_symbol("(");
    do {
      names.push_back(in_.expect_name("a name to assign to"));
    } while (in_.accept_symbol(","));
    if (bracket) in_.expect_symbol(")");
    return names;
  }

  Statement loop() {
    auto made = statement(Statement::Kind::loop);
    made.targets = targets();
    if (!in_.accept_word("in")) in_.refuse("in");
    made.value = in_.disjunction();
    if (in_.accept_word("if")) made.filter = in_.expression();
    if (in_.sees_word("recursive")) in_.refuse("%} (recursive loops are not supported)");
    end_of_tag();
    ++loops_;
    made.body = body({"else", "endfor"}, "for");
    --loops_;
    if (end_ == "else") {
      end_of_tag();
      made.other = body({"endfor"}, "for");
    }
    end_of_tag();
    return made;
  }

  Statement set() {
    auto made = statement(Statement::Kind::set);
    made.targets = targets();
    if (made.targets.size() == 1 && in_.accept_symbol(".")) {
      made.text = made.targets[0];
      made.targets[0] = in_.expect_name("the name of an attribute");
    }
    if (in_.accept_symbol("=")) {
      made.value = in_.tuple();
      end_of_tag();
      return made;
    }
    made.kind = Statement::Kind::set_block;
    if (!made.text.empty() || made.targets.size() != 1) in_.refuse("=");
    made.value = in_.filters(nullptr);
    end_of_tag();
    made.body = body({"endset"}, "set");
    end_of_tag();
    return made;
  }

  Statement macro() {
    auto made = statement(Statement::Kind::macro);
    made.text = in_.expect_name("the name of the macro");
    in_.expect_symbol("(");
    while (!in_.accept_symbol(")")) {
      if (!made.parameters.empty()) in_.expect_symbol(",");
      Parameter parameter;
      parameter.name = in_.expect_name("the name of a parameter");
      if (in_.accept_symbol("=")) parameter.initial = in_.expression();
      made.parameters.push_back(std::move(parameter));
    }
    end_of_tag();
    const int loops = std::exchange(loops_, 0);
    made.body = body({"endmacro"}, "macro");
    loops_ = loops;
    if (in_.sees(Token::Kind::name)) in_.take();  // the name once more
    end_of_tag();
    return made;
  }

  ExpressionParser in_;
  Context& context_;
  std::string end_;
  int loops_ = 0;
};

}  // namespace

Body parse(std::string_view text, Context& context) { return Parser(text, context).run(); }

}  // namespace millrace::runtime::templates
