#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {

/// A chat template: the part of Jinja in which published tokenizers write how messages become a text, with the settings of transformers
/// (trim_blocks, lstrip_blocks; the functions raise_exception and strftime_now; its filter tojson; {% generation %}). Not supported are
/// inclusion and inheritance, call and filter blocks, recursive loops, and methods that change a value. Thread: const functions from any.
///
/// A template comes from outside: neither its text nor what it is rendered with can crash or hang the program. Nesting, operations and
/// output are limited.
class Template {
 public:
  /// `where` names the template in errors: Error(data) "where:line: …" with what was found and what was expected.
  Template(std::string_view text, std::string where);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// The text for the members of the object `variables`. Errors: Error(data), also what the template itself raises.
  [[nodiscard]] std::string render(const OrderedJson& variables) const;

 private:
  struct Tree;
  std::unique_ptr<Tree> tree_;
  std::string where_;
};

}  // namespace millrace::runtime
