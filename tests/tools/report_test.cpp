#include "runtime/profile/report/report_page.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "runtime/profile/report/embedded_text.hpp"
#include "tests/browser/synthetic_profile.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::tests {
namespace {

constexpr std::string_view profile_begin = "<script type=\"application/json\" id=\"profile\">";

/// The text between a page's mark for the profile and the end of that element, as a browser determines it: at the first
/// "</script".
std::string profile_inside(const std::string& page) {
  const auto begin = page.find(profile_begin);
  if (begin == std::string::npos) return {};
  const auto text = begin + profile_begin.size();
  return page.substr(text, page.find("</script", text) - text);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t number = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++number;
  return number;
}

/// The page without the profile's text, which is data.
std::string frame_of(std::string page) {
  const auto inside = profile_inside(page);
  return page.replace(page.find(inside), inside.size(), "");
}

/// Everything by which a page loads other resources.
std::vector<std::string> references(const std::string& page) {
  static const std::regex regex(
      R"(((?:src|href|srcset|action|poster|data)\s*=\s*["']?|url\(\s*["']?|@import\s*["']?|(?:fetch|import|Worker|EventSource|WebSocket)\(\s*["'`]?)([^"'\s>)]*))");
  std::vector<std::string> found;
  for (std::sregex_iterator match(page.begin(), page.end(), regex), end; match != end; ++match)
    found.push_back((*match)[1].str() + (*match)[2].str());
  return found;
}

TEST(ReportPage, LoadsNothing) {
  const auto page = frame_of(runtime::report_page(synthetic_profile({}).dump()));
  for (const std::string& reference : references(page)) EXPECT_EQ(reference, "href=\"data:,") << "the page loads something";
  // The only address in it is a name: the XML namespace of SVG.
  EXPECT_EQ(count(page, "://"), count(page, "http://www.w3.org/2000/svg"));
  for (const char* tag : {"<link rel=\"stylesheet", "<script src", "<img", "<iframe", "<object"}) EXPECT_EQ(count(page, tag), 0U) << tag;
}

TEST(ReportPage, ReferencesAreFound) {
  EXPECT_EQ(references("<script src=\"https://a.b/c.js\">").size(), 1U);
  EXPECT_EQ(references("body { background: url(//a.b/c.png) }").size(), 1U);
  EXPECT_EQ(references("await fetch(\"/status\")").size(), 1U);
}

TEST(ReportPage, GivesTheProfileBack) {
  const auto profile = synthetic_profile({});
  EXPECT_EQ(Json::parse(profile_inside(runtime::report_page(profile.dump()))), profile);
}

TEST(ReportPage, KeepsNamesThatLookLikeMarkup) {
  auto profile = synthetic_profile({});
  for (const char* name :
       {"</script><script>alert(1)</script>", "<!--<script>", "{{report.css}}", "]]>", "a\\u003cb \"quoted\" \\", "größe &amp; ∂x"}) {
    profile["operations"][0]["name"] = name;
    profile["run"]["model"] = name;
    const auto page = runtime::report_page(profile.dump());
    const auto inside = profile_inside(page);
    EXPECT_EQ(inside.find('<'), std::string::npos) << name;
    ASSERT_TRUE(Json::accept(inside)) << name;
    EXPECT_EQ(Json::parse(inside), profile) << name;
    EXPECT_EQ(count(page, "</script>"), 2U) << name;
  }
}

TEST(ReportPage, HasAllItsParts) {
  const auto page = runtime::report_page("{}");
  EXPECT_EQ(frame_of(page).find("{{"), std::string::npos);
  std::size_t scripts = 0;
  for (const auto& file : runtime::embedded_texts()) {
    ASSERT_FALSE(file.text.empty()) << file.name;
    if (file.name == "report.html") continue;
    EXPECT_EQ(count(page, std::string(file.text)), 1U) << file.name << " is in the page once";
    EXPECT_EQ(file.text.find("</"), std::string_view::npos) << file.name << " would end its element";
    scripts += file.name.ends_with(".js") ? 1 : 0;
  }
  EXPECT_GT(scripts, 10U);
}

TEST(ReportPage, RefusesWhatIsNoProfile) {
  for (const char* text : {"", "{", "{\"format\": }", "<html>"})
    expect_error([&] { (void)runtime::report_page(text); }, ExitCode::data, {"[runtime.report]", "not JSON", "profile.json"});
  expect_error([] { (void)runtime::embedded_text("missing.js"); }, ExitCode::internal, {"missing.js", "runtime/profile/report"});
}

// The synthetic profiles that the page is tested with have the right format; those tests would be meaningless if they had not.
TEST(SyntheticProfile, AddsUp) {
  for (const SyntheticRun& run :
       {SyntheticRun{}, SyntheticRun{.schedule = "zb-h1"}, SyntheticRun{.schedule = "dualpipe", .ranks = 8, .microbatches = 20}}) {
    const auto profile = synthetic_profile(run);
    EXPECT_EQ(profile["timeline"]["measured"].size(), static_cast<std::size_t>(run.ranks));
    for (const auto& step : profile["steps"])
      for (std::size_t rank = 0; rank < step["ranks"].size(); ++rank) {
        double sum = 0;
        for (const auto& ms : step["ranks"][rank]) {
          EXPECT_GE(ms.get<double>(), -1e-3) << run.schedule;
          sum += ms.get<double>();
        }
        EXPECT_NEAR(sum, step["wall"][rank].get<double>(), 0.005 * sum) << run.schedule << " rank " << rank;
      }
    for (std::size_t rank = 0; rank < profile["timeline"]["measured"].size(); ++rank) {
      double free = 0;
      for (const auto& entry : profile["timeline"]["measured"][rank]) {
        EXPECT_GE(entry[3].get<double>(), free - 1e-3) << run.schedule << " rank " << rank;
        free = entry[4].get<double>();
      }
    }
  }
}

}  // namespace
}  // namespace millrace::tests
