// Reads the profile embedded in the page and draws all charts. A chart that cannot be drawn shows an error and does not affect the others.

function startReport() {
  startTheme();
  for (const box of document.querySelectorAll(".table-box")) fadeCutEdges(box);
  const failure = (text) => {
    byId("failure").hidden = false;
    byId("failure").append(html("span", {}, text + " "));
  };
  let profile;
  try {
    profile = JSON.parse(byId("profile").textContent);
  } catch (error) {
    return failure(`The profile inside this page is not JSON: ${error.message}.`);
  }
  if (profile.format !== "millrace.profile.1") return failure(`The profile's format is ${JSON.stringify(profile.format)}, expected "millrace.profile.1".`);
  document.title = `millrace profile: ${profile.run.schedule}, ${profile.run.ranks} ranks`;
  for (const show of [showSummary, showFacts, showTimeline, showLateness, showAttribution, showOperations, showExchanges, showExperts, showRoofline, showMemory, showLoss, showClocks]) {
    try {
      show(profile);
    } catch (error) {
      console.error(error);
      failure(`${show.name} could not be drawn: ${error.message}.`);
    }
  }
}

startReport();
