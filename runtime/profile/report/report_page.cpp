#include "runtime/profile/report/report_page.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "runtime/profile/report/embedded_text.hpp"

namespace millrace::runtime {
namespace {

// Makes JSON safe inside a script element, where "</script" would end the element and "<!--" would change how its end is found.
// In JSON a "<" occurs only in strings, where it can be written as an escape: the page reads the same values.
std::string without_tags(std::string_view json) {
  std::string result;
  result.reserve(json.size() + json.size() / 64);
  for (const char letter : json) {
    if (letter == '<') {
      result += "\\u003c";
    } else {
      result += letter;
    }
  }
  return result;
}

std::string all_scripts() {
  std::string result;
  for (const EmbeddedText& file : embedded_texts())
    if (file.name.ends_with(".js")) result += file.text;
  return result;
}

std::string part(std::string_view name, std::string_view profile_json) {
  if (name == "profile") return without_tags(profile_json);
  if (name == "report.js") return all_scripts();
  return std::string(embedded_text(name));
}

}  // namespace

std::string_view embedded_text(std::string_view name) {
  const auto texts = embedded_texts();
  const auto found = std::find_if(texts.begin(), texts.end(), [name](const EmbeddedText& text) { return text.name == name; });
  MILLRACE_CHECK(found != texts.end(), ExitCode::internal, "runtime.report",
                 "a text of the name \"{}\", expected a file of runtime/profile/report", name);
  return found->text;
}

std::string page_of(std::string_view frame, const std::function<std::string(std::string_view name)>& text) {
  std::string page;
  std::size_t done = 0;
  for (std::size_t mark = frame.find("{{"); mark != std::string_view::npos; mark = frame.find("{{", done)) {
    const std::size_t end = frame.find("}}", mark);
    MILLRACE_CHECK(end != std::string_view::npos, ExitCode::internal, "runtime.report",
                   "a mark without end in a page, expected {{{{name}}}}");
    page += frame.substr(done, mark - done);
    page += text(frame.substr(mark + 2, end - mark - 2));
    done = end + 2;
  }
  page += frame.substr(done);
  return page;
}

std::string report_page(std::string_view profile_json) {
  MILLRACE_CHECK(nlohmann::json::accept(profile_json), ExitCode::data, "runtime.report",
                 "a profile of {} bytes that is not JSON, expected the text of a profile.json", profile_json.size());
  return page_of(embedded_text("report.html"), [profile_json](std::string_view name) { return part(name, profile_json); });
}

}  // namespace millrace::runtime
