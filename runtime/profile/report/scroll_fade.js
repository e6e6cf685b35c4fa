// Shows that a box has more to its left, to its right or below: the cut edge fades out (palette.css), as far as there is more, 28 pixels at most.

function fadeCutEdges(box) {
  const show = () => {
    const hidden = {
      left: box.scrollLeft,
      right: box.scrollWidth - box.clientWidth - box.scrollLeft,
      bottom: box.scrollHeight - box.clientHeight - box.scrollTop,
    };
    let cut = false;
    for (const side of Object.keys(hidden)) {
      const fade = Math.max(0, Math.min(28, Math.floor(hidden[side])));
      box.style.setProperty("--fade-" + side, fade + "px");
      cut = cut || fade > 0;
    }
    box.classList.toggle("cut", cut);
  };
  box.classList.add("fades");
  box.addEventListener("scroll", show, {passive: true});
  const sizes = new ResizeObserver(show), watchAll = () => { for (const child of box.children) sizes.observe(child); };
  sizes.observe(box);
  new MutationObserver(() => { watchAll(); show(); }).observe(box, {childList: true});
  watchAll();
  show();
}
