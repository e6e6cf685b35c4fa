#include "kernels/base/nearest.hpp"

#include <algorithm>
#include <vector>

namespace millrace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table, since a swap refers to the row before the previous one.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

namespace {

/// Whether a text is the initials of a name's words: lr of learning_rate.
bool is_initials(std::string_view text, std::string_view name) {
  std::string initials;
  for (std::size_t i = 0; i < name.size(); ++i)
    if (i == 0 || name[i - 1] == '_') initials += name[i];
  return initials.size() > 1 && text == initials;
}

}  // namespace

std::string nearest_name(std::string_view wrong, std::span<const std::string> names) {
  const std::size_t bound = std::max<std::size_t>(2, wrong.size() / 3);
  std::size_t best = bound + 1;
  std::string nearest;
  for (const std::string& name : names) {
    std::size_t distance = edit_distance(wrong, name);
    const std::string_view last_part = std::string_view(name).substr(name.rfind('.') + 1);
    // The right word in a wrong section, or without a section.
    const std::string_view wrong_part = wrong.substr(wrong.rfind('.') + 1);
    if (last_part == wrong_part || is_initials(wrong_part, last_part)) distance = std::min<std::size_t>(distance, 2);
    if (distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view wrong, std::span<const std::string> names) {
  const std::string nearest = nearest_name(wrong, names);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace millrace
