#include "runtime/data/templates/template.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/paths.hpp"
#include "tests/tools/text.hpp"

namespace millrace::runtime {
namespace {

using tests::read_source;

constexpr const char* folder = "tests/golden/chat_templates/";

std::string rendered(const std::string& text, const OrderedJson& variables = OrderedJson::object()) {
  return Template(text, "a.jinja").render(variables);
}

/// The message of the error that a template ends with.
std::string refused(const std::string& text, const OrderedJson& variables = OrderedJson::object()) {
  try {
    return "no error, but: " + rendered(text, variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  }
}

TEST(Template, ALoopIsLeftFromWithinABlockThatIsSet) {
  EXPECT_EQ(rendered("{% for i in [1, 2, 3] %}{% set x %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endset %}<{{ x }}>{% endfor %}|"),
            "<1>|");
  EXPECT_EQ(
      rendered("{% for i in [1, 2, 3] %}{% set x %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endset %}<{{ x }}>{% endfor %}|"),
      "<1><3>|");
}

/// What Jinja itself gave in the environment of transformers (tools/reference/render_templates.py).
TEST(Template, RendersAsJinja) {
  const auto conversations = OrderedJson::parse(read_source(std::string(folder) + "conversations.json"));
  const auto expected = OrderedJson::parse(read_source(std::string(folder) + "expected.json"));
  ASSERT_GE(expected.size(), 60U);
  for (const auto& entry : expected) {
    const std::string name = entry["template"].get<std::string>(), conversation = entry["conversation"].get<std::string>();
    const Template made(read_source(folder + name), name);
    const auto& variables = conversations.at(conversation);
    if (entry.contains("text")) {
      EXPECT_EQ(made.render(variables), entry["text"].get<std::string>()) << name << ", " << conversation;
    } else {
      EXPECT_THROW(static_cast<void>(made.render(variables)), Error) << name << ", " << conversation << ": " << entry["error"];
    }
  }
}

TEST(Template, SaysWhereAndWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {{"a\n{% if x %}\n", "a.jinja:2: if without end, expected {% endif %}"},
                                                       {"a\n\n{{ x | trimm }}", "a.jinja:3: there is no filter trimm; did you mean trim?"},
                                                       {"{{ 1 is evn }}", "a.jinja:1: there is no test evn; did you mean even?"},
                                                       {"{{ x.y }}", "a.jinja:1: x is undefined, and so has no y"},
                                                       {"{{ f() }}", "f is undefined, and so cannot be called"},
                                                       {"\n{% include 'b' %}", "a.jinja:2: the statement include, expected one of: if,"},
                                                       {"{{ 'a }}", "a string without end, expected '"},
                                                       {"{{ a b }}", "found b, expected }}"},
                                                       {"{% for x in y %}{% endif %}", "the statement endif"},
                                                       {"{{ 1 / 0 }}", "a division by zero"},
                                                       {"{{ 'a' + 1 }}", "str + int, expected two numbers, or two strings or lists for +"},
                                                       {"{{ 'a' < 1 }}", "str is compared with int"},
                                                       {"{# no end", "a comment without end"},
                                                       {"{{ raise_exception('No: ' ~ 1) }}", "a.jinja:1: the template refuses: No: 1"},
                                                       {"{% set x.y = 1 %}", "x.y is set, expected x to be a namespace()"},
                                                       {"{% for a, b in [[1, 2, 3]] %}{% endfor %}", "3 values for 2 names"},
                                                       {"{% break %}", "break outside of a loop"},
                                                       {"{{ {1: 2} }}", "the key 1 of a mapping, expected a string"},
                                                       {"{{ none | length }}", "the length of None"},
                                                       {"{{ [1].append(2) }}", "append is undefined, and so cannot be called"}};
  for (const auto& [text, message] : cases) tests::expect_parts(refused(text), {message});
}

/// None of these may crash, hang, or take much memory.
TEST(Template, LimitsWhatATemplateMayCost) {
  const auto times = [](const std::string& text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  const std::pair<std::string, const char*> cases[] = {
      {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "computes for too long"},
      {"{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}", "computes for too long"},
      {"{{ range(1000000000000) }}", "computes for too long"},
      {"{{ 'a' * 1000000000 }}", "computes for too long"},
      {"{{ ('a' * 1000000) | indent(1000, true) | replace('a', 'a' * 1000) }}", "computes for too long"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested too deeply"},
      {"{{ " + times("(", 5000) + "1" + times(")", 5000) + " }}", "nested deeper than 100 levels"},
      {"{{ " + times("[", 5000) + " }}", "nested deeper than 100 levels"},
      {"{{ " + times("not ", 5000) + "1 }}", "nested deeper than 100 levels"},
      {"{{ 1" + times(" + 1", 5000) + " }}", "more than 200 levels"},
      {"{{ a" + times(".b", 5000) + " }}", "more than 200 levels"},
      {times("{% if 1 %}", 5000), "nested deeper than 100 levels"},
      {"{% if 1 %}" + times("{% elif 1 %}", 5000) + "{% endif %}", "nested deeper than 100 levels"},
      {"{% set n = namespace(x=[]) %}{% for i in range(10000) %}{% set n.x = [n.x] %}{% endfor %}",
       "values are nested deeper than 100 levels"},
      {"{% set n = namespace(x=1) %}{% for i in range(50) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}",
       "computes for too long"},
      {"{% set n = namespace() %}{% set n.self = [n] %}", "a namespace in a namespace"},
      {"{{ 9007199254740992 * 9007199254740992 }}", "an integer beyond"},
      {"{{ 99999999999999999999999 }}", "expected at most 18 digits"}};
  for (const auto& [text, message] : cases) tests::expect_parts(refused(text), {message});
}

/// Templates with random damage end with a text or an Error.
TEST(Template, SurvivesDamage) {
  const auto conversations = OrderedJson::parse(read_source(std::string(folder) + "conversations.json"));
  std::vector<OrderedJson> variables;
  for (const auto& conversation : conversations) variables.push_back(conversation);
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(tests::source_path(folder)))
    if (entry.path().extension() == ".jinja") texts.push_back(tests::read_file(entry.path().string()));
  std::sort(texts.begin(), texts.end());
  ASSERT_GE(texts.size(), 8U);
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random()) % std::max<std::size_t>(limit, 1); };
  int whole = 0, damaged = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string text = texts[below(texts.size())];
    for (std::size_t k = 1 + below(3); k > 0; --k) {
      const std::size_t at = below(text.size()), length = below(20);
      const std::string& other = texts[below(texts.size())];
      switch (below(4)) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.insert(at, other.substr(below(other.size()), length));
          break;
        case 2:
          text[at] = static_cast<char>(below(256));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), length));
          break;
      }
    }
    try {
      static_cast<void>(rendered(text, variables[below(variables.size())]));
      ++whole;
    } catch (const Error&) {
      ++damaged;
    }
  }
  EXPECT_GT(whole, 100);
  EXPECT_GT(damaged, 100);
}

}  // namespace
}  // namespace millrace::runtime
