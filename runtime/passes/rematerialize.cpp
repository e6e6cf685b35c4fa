#include "runtime/passes/rematerialize.hpp"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* rematerialize_component = "runtime.rematerialize";

struct Named {
  std::string_view name;
  std::vector<std::string> keep;
};

const std::vector<Named>& named_policies() {
  static const std::vector<Named> policies = {
      {"full", {}},
      {"minimal", {"query_proj", "key_proj", "value_proj", "qkv_proj", "out_proj", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo"}},
      {"minimal_with_context",
       {"query_proj", "key_proj", "value_proj", "qkv_proj", "out_proj", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo", "context"}},
      {"save_qkv_proj", {"query_proj", "key_proj", "value_proj", "qkv_proj"}},
      {"save_out_proj", {"out_proj"}},
      {"save_dot_except_mlp", {"query_proj", "key_proj", "value_proj", "qkv_proj", "out_proj"}},
      {"save_dot_except_mlpwi", {"query_proj", "key_proj", "value_proj", "qkv_proj", "out_proj", "mlpwo"}},
      {"save_dot_with_context_except_mlp", {"query_proj", "key_proj", "value_proj", "qkv_proj", "out_proj", "context"}},
  };
  return policies;
}

/// What a policy may name.
std::vector<std::string> nameable(std::vector<std::string> labels) {
  labels.emplace_back("none");
  for (const auto& policy : named_policies()) labels.emplace_back(policy.name);
  return labels;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

RematerializationPolicy RematerializationPolicy::parse(std::string_view text, const std::vector<std::string>& known_labels) {
  constexpr std::string_view offloads = "offload:";
  RematerializationPolicy policy;
  policy.keep_everything = false;
  std::vector<std::string_view> words;
  const auto check_label = [&](std::string_view word) {
    MILLRACE_CHECK(std::find(known_labels.begin(), known_labels.end(), word) != known_labels.end(), ExitCode::config,
                   rematerialize_component, "'{}' in '{}' is neither a policy nor a label of this model, whose labels are {}{}", word, text,
                   fmt::join(known_labels, ", "), did_you_mean(word, nameable(known_labels)));
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto word = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (!word.starts_with(offloads)) {
      words.push_back(word);
      continue;
    }
    const auto label = word.substr(offloads.size());
    check_label(label);
    policy.offload.emplace(label);
    policy.keep.emplace(label);
  }
  if (words.size() == 1) {
    if (words.front() == "none") policy.keep_everything = true;
    const auto& named = named_policies();
    const auto found = std::find_if(named.begin(), named.end(), [&](const Named& each) { return each.name == words.front(); });
    if (found != named.end()) policy.keep.insert(found->keep.begin(), found->keep.end());
    if (policy.keep_everything || found != named.end()) return policy;
  }
  for (const auto word : words) {
    check_label(word);
    policy.keep.emplace(word);
  }
  return policy;
}

}  // namespace millrace::runtime
