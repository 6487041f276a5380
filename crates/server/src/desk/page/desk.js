"use strict";
// Asks whether there is anything new, and then puts the new content of this page in the place of the old one. The server
// answers when there is, or after a while.
(async () => {
  const pause = () => new Promise((done) => setTimeout(done, 1000));
  // A page that answers a form is not sent the form again.
  const again = () => location.replace(location.pathname + location.search);
  for (let live; (live = document.querySelector("#live[data-poll]")); ) {
    // A browser has six connections for all of its tabs. The list is the one whose title changes.
    if (document.hidden && location.pathname !== "/") {
      await pause();
      continue;
    }
    try {
      const news = await fetch(live.dataset.poll, { cache: "no-store" });
      // The login has ended.
      if (news.redirected) return again();
      // A list of choices that is open stays.
      if (!news.ok || document.activeElement?.tagName === "SELECT") {
        await pause();
        continue;
      }
      const answer = await fetch(location.href, { cache: "no-store" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("live");
      if (!next) return again();
      const focused = live.contains(document.activeElement) ? document.activeElement.id : "";
      live.replaceWith(next);
      if (focused) document.getElementById(focused)?.focus();
      document.title = page.title;
      const [old, fresh] = [document, page].map((it) => it.querySelector("h1"));
      // Said by a screen reader when it changes, and not each time.
      if (old && fresh && old.textContent !== fresh.textContent) old.textContent = fresh.textContent;
    } catch {
      await pause();
    }
  }
})();
