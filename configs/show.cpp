#include "configs/show.hpp"

#include <fmt/format.h>

#include "configs/schema.hpp"

namespace millrace::configs {
namespace {

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

std::string default_text(const Key& key) {
  static const RunConfig built_in;
  // A size of 0 means "not given" and is not a legal value in a file.
  const Value value = key.fetch(built_in);
  return in_range(key, value) ? to_text(value) : "none";
}

/// A file's name may contain control characters, which a TOML comment must not.
std::string comment_text(std::string text) {
  for (char& character : text) {
    if (static_cast<unsigned char>(character) < 0x20 || character == 0x7f) character = '?';
  }
  return text;
}

/// Escapes "|", which would end a table cell.
std::string table_text(const std::string& text) {
  std::string result;
  for (const char character : text) {
    if (character == '|') result += '\\';
    result += character;
  }
  return result;
}

const char* mark_text(Mark mark) { return mark == Mark::identity ? "identity" : "layout"; }

}  // namespace

std::string show(const LoadedRun& run) {
  std::string text;
  std::string_view section;
  for (const Key& key : schema()) {
    if (section_of(key.name) != section) {
      section = section_of(key.name);
      text += fmt::format("\n[{}]\n", section);
    }
    const Setting& setting = run.settings.at(key.name);
    // Omits sizes that are not set, since 0 could not be loaded again.
    const char* hidden = in_range(key, setting.value) ? "" : "# ";
    const std::string assignment = fmt::format("{}{} = {}", hidden, last_part(key.name), to_text(setting.value));
    text += fmt::format("{:<44}  # {}\n", assignment, comment_text(setting.origin.place));
  }
  return text;
}

std::string help_text() {
  std::string text;
  for (const Key& key : schema()) {
    text +=
        fmt::format("{}\n    {}; default {}; {}\n    {}\n", key.name, expected_text(key), default_text(key), mark_text(key.mark), key.doc);
  }
  return text;
}

std::string key_reference() {
  std::string text =
      "# The keys of a run description\n\n"
      "A run is described by TOML files, `MILLRACE_SECTION_KEY` variables and `section.key=value` on the command line; each overrides the "
      "ones\n"
      "before it, and all of them a model's preset and the defaults below. `millrace config show` prints every value and where it came "
      "from.\n"
      "On the command line strings need no quotes, which a shell removes, and a list is `data.text=a,b` or `data.text=[a,b]`.\n"
      "A key is *identity* (a resumed run must have the same value) or *layout* (free to change).\n\n"
      "This page is made from `configs/schema.cpp`; a test holds the two together.\n";
  const std::string head = "| key | accepts | default | mark | meaning |\n|---|---|---|---|---|\n";
  const std::string* previous = nullptr;
  for (const Key& key : schema()) {
    if (previous == nullptr || section_of(*previous) != section_of(key.name)) {
      const std::string_view section = section_of(key.name);
      text += section.empty() ? "\n" + head : fmt::format("\n## {}\n\n{}", section, head);
    }
    previous = &key.name;
    text += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", key.name, table_text(expected_text(key)), table_text(default_text(key)),
                        mark_text(key.mark), table_text(key.doc));
  }
  return text;
}

}  // namespace millrace::configs
