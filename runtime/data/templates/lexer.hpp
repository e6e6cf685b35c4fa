#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/templates/value.hpp"

namespace millrace::runtime::templates {

struct Token {
  enum class Kind : std::uint8_t {
    data,            // text between tags
    variable_begin,  // {{
    variable_end,    // }}
    block_begin,     // {%
    block_end,       // %}
    name,
    text,  // a string literal, without quotes and escapes
    integer,
    real,
    symbol,  // an operator or a bracket
    end
  };
  Kind kind = Kind::end;
  std::string text;
  int line = 1;
};

/// Divides a template into tokens. Whitespace is removed as transformers sets it: the first line end after a block or comment
/// (trim_blocks), spaces and tabs before a block or comment on its line (lstrip_blocks), all whitespace on the side of a "-", none on the
/// side of a "+"; comments are dropped, {% raw %} is data, and one line end at the end of the template is dropped. Errors: context.fail().
[[nodiscard]] std::vector<Token> tokens_of(std::string_view text, Context& context);

}  // namespace millrace::runtime::templates
