#include "runtime/data/templates/template.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/data/templates/evaluator.hpp"
#include "runtime/data/templates/parser.hpp"

namespace millrace::runtime {

struct Template::Tree {
  templates::Body body;
};

Template::Template(std::string_view text, std::string where) : where_(std::move(where)) {
  templates::Context context(where_);
  tree_ = std::make_unique<Tree>();
  tree_->body = templates::parse(text, context);
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(const OrderedJson& variables) const {
  templates::Context context(where_);
  templates::Entries values;
  for (const auto& [name, value] : variables.items()) values.emplace_back(name, templates::Value::from_json(value));
  std::string out;
  templates::Evaluator(std::move(values), context).run(tree_->body, out);
  return out;
}

}  // namespace millrace::runtime
