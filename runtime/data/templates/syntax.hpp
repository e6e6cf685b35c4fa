#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/templates/value.hpp"

namespace millrace::runtime::templates {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind : std::uint8_t {
    literal,     // value
    name,        // text
    list,        // parts
    mapping,     // parts: key, value, key, value, …
    attribute,   // parts[0].text
    subscript,   // parts[0][parts[1]]
    slice,       // parts[0][parts[1]:parts[2]:parts[3]]; null where nothing is given
    call,        // parts[0](parts[1]…, named)
    filter,      // parts[0] | text(parts[1]…, named); parts[0] is null for the text of a block
    test,        // parts[0] is text(parts[1]…)
    unary,       // text: not, -, +
    binary,      // text: an arithmetic or logical operator
    comparison,  // parts[0] operators[0] parts[1] operators[1] parts[2] …
    condition    // parts[1] if parts[0] else parts[2] (null: undefined)
  };
  Kind kind = Kind::literal;
  int line = 0;
  int depth = 1;  // levels of the tree below and with this node
  std::string text;
  Value value;
  std::vector<ExpressionPtr> parts;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  std::vector<std::string> operators;
};

struct Statement;
using Body = std::vector<Statement>;

/// A parameter of a macro: its name, and its default or null.
struct Parameter {
  std::string name;
  ExpressionPtr initial;
};

struct Statement {
  enum class Kind : std::uint8_t {
    data,       // text
    print,      // value
    condition,  // if value: body, else: other
    loop,       // for targets in value (if filter): body, else: other
    set,        // targets = value, or text.targets[0] = value for an attribute of a namespace
    set_block,  // targets[0] = body, through value (its filters) unless that is null
    macro,      // text(parameters): body
    block,      // body, in a scope of its own
    leave,      // break
    next        // continue
  };
  Kind kind = Kind::data;
  int line = 0;
  std::string text;
  std::vector<std::string> targets;
  ExpressionPtr value, filter;
  std::vector<Parameter> parameters;
  Body body, other;
};

}  // namespace millrace::runtime::templates
