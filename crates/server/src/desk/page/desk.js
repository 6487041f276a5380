"use strict";
// Asks whether there is anything new, and then puts the new content of this page in the place of the old one. The server
// answers when there is, or after a while. Without this script the page is loaded again every five seconds.
(async () => {
  const pause = () => new Promise((done) => setTimeout(done, 1000));
  for (let live; (live = document.getElementById("live")); ) {
    try {
      const news = await fetch(live.dataset.poll, { cache: "no-store" });
      // The login has ended.
      if (news.redirected) return location.reload();
      // A list of choices that is open stays.
      if (!news.ok || document.activeElement?.tagName === "SELECT") {
        await pause();
        continue;
      }
      const answer = await fetch(location.href, { cache: "no-store" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("live");
      if (!next) return location.reload();
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
