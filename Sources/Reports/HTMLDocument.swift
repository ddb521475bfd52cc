import Digests
import Foundation
import Pricing

/// A page with its frame. It is self-contained: it has no script, and loads nothing from elsewhere.
package struct HTMLDocument: Sendable {
    package var title: String
    /// The text below the heading, which says what the page is about.
    package var lead: HTML
    package var body: HTML
    /// The header and footer of all pages of a site.
    package var header: HTML
    package var footer: HTML
    /// After how many seconds the page is loaded again; nil for never.
    package var refreshSeconds: Int?

    package init(
        title: String, lead: HTML = .none, body: HTML, header: HTML = .none,
        footer: HTML = .none, refreshSeconds: Int? = nil
    ) {
        self.title = title
        self.lead = lead
        self.body = body
        self.header = header
        self.footer = footer
        self.refreshSeconds = refreshSeconds
    }

    package var text: String {
        let refresh =
            refreshSeconds.map { "<meta http-equiv=\"refresh\" content=\"\($0)\">\n" as HTML }
            ?? .none
        let page: HTML = """
            <!DOCTYPE html>
            <html lang="en"><head><meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            \(refresh)<title>\(title) · repricer</title>
            <link rel="icon" href="\(Self.icon)">
            <style>\(HTML(markup: style))</style></head><body>
            \(header)<main id="content" tabindex="-1">
            <h1>\(title)</h1>
            \(lead)\(body)</main>
            \(footer)</body></html>

            """
        return page.markup
    }

    /// Without it a browser would request an icon, and report that it is missing.
    private static let icon =
        "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E"
        + "%3Cpath d='M1 6h2V4h2V1h2v6H1z' fill='%233a6ea5'/%3E%3C/svg%3E"

    /// Allows this style sheet, by its digest, and nothing else to be loaded or run.
    package static let contentSecurityPolicy: String = {
        let sheet = Data(SHA256.digest(of: Array(style.utf8))).base64EncodedString()
        return "default-src 'none'; style-src 'sha256-\(sheet)'; img-src data:; "
            + "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    }()
}

/// A page of a command, around markup that is finished; the title is text.
package func htmlDocument(title: String, asOf: Int64?, body: String) -> String {
    let lead: HTML = asOf.map { "<p class=\"lead\">As of \(HTML.time($0)).</p>\n" } ?? .none
    return HTMLDocument(title: title, lead: lead, body: HTML(markup: body)).text
}

/// The rules by which the rows of a table become blocks, each cell below its heading.
private func blocks(of table: String) -> String {
    """
    @,@ caption,@ tbody,@ tfoot{display:block}
    @ thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
    @ tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(7.6rem,1fr));gap:.35rem .8rem;padding:.7rem 0;
    border-bottom:1px solid var(--soft)}
    @ th,@ td{display:block;border:0;padding:0;text-align:left;white-space:normal;
    overflow-wrap:anywhere}
    @ tbody th,@ .wide{grid-column:1/-1;font-weight:650}
    @ time,@ .badge{white-space:normal}
    @ td:has(code),@ td:has(.badge~.badge){grid-column:1/-1}
    @ td:empty{display:none}@ .number{text-align:left}
    @ td::before{content:attr(data-label);display:block;color:var(--soft);font-size:.8rem}
    """.replacing("@", with: table)
}

private let style = """
    :root{color-scheme:light dark;--page:#f4f6f8;--card:#fff;--ink:#17212b;--soft:#4a5866;
    --line:#d3dae1;--link:#0a57a4;--track:#dfe5eb;--bar:#3a6ea5;--gain:#12703f;--loss:#a8321f;
    --open:#8a5a00;--alarm:#fdecea;--warn:#fff5da;--good:#e6f4ec;--calm:#e8eef5}
    @media(prefers-color-scheme:dark){:root{--page:#0f151b;--card:#18212a;--ink:#e8edf2;
    --soft:#aeb9c4;--line:#33404c;--link:#86bdff;--track:#33404c;--bar:#6ea3dc;--gain:#5ccb8c;
    --loss:#ff9c8a;--open:#f0bd5a;--alarm:#42201c;--warn:#3b2f11;--good:#15372a;--calm:#22303e}}
    *{box-sizing:border-box}
    html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
    body{margin:0;background:var(--page);color:var(--ink);
    font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
    a{color:var(--link)}a:hover{text-decoration-thickness:2px}
    :focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:3px}
    main:focus{outline:none}
    .skip{position:absolute;left:-100rem;top:0;padding:.6rem 1rem;background:var(--card);z-index:1}
    .skip:focus{left:0}
    .quiet{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);
    white-space:nowrap}
    .site{background:var(--card);border-bottom:1px solid var(--line)}
    .site>div{max-width:84rem;margin:0 auto;padding:.5rem 1.25rem;display:flex;flex-wrap:wrap;
    gap:.4rem 1.5rem;align-items:center}
    .brand{font-weight:700;font-size:1.05rem;color:var(--ink);text-decoration:none}
    .site nav ul{display:flex;gap:.25rem 1.1rem;list-style:none;margin:0;padding:0;flex-wrap:wrap}
    .site nav a{display:inline-block;padding:.3rem 0;text-decoration:none}
    .site nav a[aria-current]{color:var(--ink);font-weight:600;border-bottom:2px solid var(--link)}
    .site form{margin-left:auto}
    form{display:flex;flex-wrap:wrap;gap:.5rem .75rem;align-items:end}
    label{font-size:.87rem;color:var(--soft);min-width:0;max-width:100%}
    label span{display:block}
    input,select,button{font:inherit;color:inherit;background:var(--card);
    border:1px solid var(--soft);border-radius:5px;padding:.3rem .55rem;max-width:100%;min-height:2.3rem}
    .site input{width:19rem}
    button{background:var(--calm);cursor:pointer}
    main{max-width:84rem;margin:0 auto;padding:1.1rem 1.25rem 2rem}
    h1{font-size:1.65rem;line-height:1.25;margin:.3rem 0;overflow-wrap:anywhere}
    h2{font-size:1.2rem;margin:0 0 .5rem}h3{font-size:1rem;margin:1.1rem 0 .4rem;overflow-wrap:anywhere}
    .lead{margin:.2rem 0 1rem;color:var(--soft)}
    .note{color:var(--soft);font-size:.87rem;margin:.5rem 0}
    section{background:var(--card);border:1px solid var(--line);border-radius:8px;
    padding:1rem 1.15rem;margin:1rem 0}
    .two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,32rem),1fr));gap:0 1rem}
    .two>section{min-width:0}
    .cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.75rem;
    margin:1rem 0;padding:0;list-style:none}
    .cards li{background:var(--card);border:1px solid var(--line);border-radius:8px;
    padding:.65rem .9rem}
    .cards .name{display:block;color:var(--soft);font-size:.87rem}
    .cards .value{display:block;font-size:1.35rem;font-weight:650;line-height:1.3;
    font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
    .cards time{white-space:normal}.cards .value time{font-size:1.1rem}.cards .meter{margin:.25rem 0}
    .cards .more{display:block;color:var(--soft);font-size:.87rem}
    .notices{list-style:none;margin:1rem 0;padding:0;display:grid;gap:.5rem}
    .notices li{border:1px solid var(--line);border-left:5px solid var(--open);border-radius:6px;
    background:var(--warn);padding:.55rem .85rem;overflow-wrap:anywhere}
    .notices li.alarm{border-left-color:var(--loss);background:var(--alarm)}
    .notices li.calm{border-left-color:var(--bar);background:var(--calm)}
    .notices strong{margin-right:.35rem}
    code{font:.93em ui-monospace,"DejaVu Sans Mono",monospace;background:var(--calm);
    padding:.08em .35em;border-radius:4px;overflow-wrap:anywhere}
    pre{background:var(--calm);border-radius:6px;padding:.7rem .9rem;margin:.5rem 0;
    white-space:pre-wrap;overflow-wrap:anywhere}pre code{padding:0;background:none}
    .badge{display:inline-block;border:1px solid var(--line);border-radius:1rem;padding:0 .6rem;
    font-size:.87rem;background:var(--calm);white-space:nowrap}
    .badge.alarm{background:var(--alarm);border-color:var(--loss)}
    .badge.warn{background:var(--warn);border-color:var(--open)}
    .badge.good{background:var(--good);border-color:var(--gain)}
    .facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr));
    gap:.5rem 1.5rem;margin:0}
    .facts dt{color:var(--soft);font-size:.87rem}.facts dd{margin:0;overflow-wrap:anywhere}
    .scroll{overflow-x:auto;max-width:100%}
    .hint{position:sticky;left:0;margin:.25rem 0;color:var(--soft);font-size:.87rem}
    @supports(container-type:scroll-state){.scroll:has(>.hint){container-type:scroll-state}.hint{display:none}
    @container scroll-state(scrollable:x){.hint{display:block}}}
    table{border-collapse:collapse;width:100%;margin:.25rem 0;font-size:.93rem}
    caption{text-align:left;font-weight:600;padding:.6rem 0 .35rem}
    h1,strong,td,th,dd,option,td>a,th>a,.lead a,.notices a{unicode-bidi:isolate}.id{white-space:nowrap}
    th,td{padding:.34rem .9rem .34rem 0;border-bottom:1px solid var(--line);text-align:left;
    vertical-align:top}
    th:last-child,td:last-child{padding-right:.1rem}
    thead th{color:var(--soft);font-weight:600;font-size:.87rem;vertical-align:bottom;
    border-bottom-color:var(--soft);white-space:normal}
    tbody th{font-weight:500;min-width:7.5rem;overflow-wrap:anywhere}tbody th.number{min-width:0}tr.part th{font-weight:650;padding-top:.9rem}
    .number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
    thead th.number,.number .sub,.stacked .number{white-space:normal}
    .stacked td:not(.number){overflow-wrap:anywhere;min-width:5.5rem}
    time{white-space:nowrap}@media(min-width:83rem){.line{white-space:nowrap}}
    ::placeholder{color:var(--soft);opacity:1}
    .long{overflow-wrap:anywhere}
    tfoot td,tfoot th{font-weight:650;border-bottom:0;border-top:1px solid var(--soft)}
    .sub{display:block;color:var(--soft);font-size:.87rem;font-weight:400}
    .gain{color:var(--gain)}.loss{color:var(--loss)}
    .chart{margin:.4rem 0}
    figcaption{margin-bottom:.4rem}figcaption>span{color:var(--soft)}
    .bars th{width:1%;white-space:nowrap}.bars .bar{width:99%;padding-top:.62rem}
    .meter{display:block;width:100%;height:.7rem;border-radius:3px}
    .progress{display:flex;align-items:center;gap:.5rem;white-space:nowrap}
    .progress .meter{width:2.8rem;height:.5rem;flex:none}
    rect.track{fill:var(--track)}rect.plain{fill:var(--bar)}rect.gain{fill:var(--gain)}
    rect.loss{fill:var(--loss)}rect.open{fill:var(--open)}
    .curve{display:block;overflow:visible;font-size:12px}.curve text{fill:var(--soft);paint-order:stroke;
    stroke:var(--card);stroke-width:3px}
    .grid{stroke:var(--line)}.now{stroke:var(--ink);stroke-dasharray:2 3}
    .line{fill:none;stroke-width:2.5;vector-effect:non-scaling-stroke}
    .line.forecast{stroke:var(--soft);stroke-dasharray:2 4;stroke-width:2}
    .line.fact{stroke:var(--gain)}.line.due{stroke:var(--bar);stroke-dasharray:7 4}
    .legend{display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;list-style:none;margin:.2rem 0;padding:0;
    font-size:.87rem}.swatch{vertical-align:middle}
    details{margin:.6rem 0}summary{cursor:pointer;color:var(--link)}
    .foot{max-width:84rem;margin:0 auto;padding:0 1.25rem 2rem;color:var(--soft);font-size:.87rem}
    @media(max-width:46rem){
    body{font-size:16px}main,.foot{padding-left:.8rem;padding-right:.8rem}
    .site>div{padding:.5rem .8rem}.site form{margin-left:0;width:100%;flex-wrap:nowrap}
    .site form label{flex:1}.site input{width:100%}
    section{padding:.8rem .85rem}h1{font-size:1.4rem}
    .cards{grid-template-columns:repeat(2,minmax(0,1fr));gap:.5rem}.cards .value{font-size:1.15rem}
    .bars,.bars tbody{display:block}
    .bars tr{display:grid;grid-template-columns:1fr auto;border-bottom:1px solid var(--line);
    padding:.3rem 0}.bars th,.bars td{border:0;padding:0;width:auto;white-space:normal}
    .bars .bar{grid-column:1/-1;grid-row:2;padding:.2rem 0}
    \(blocks(of: ".stacked"))
    .progress .meter{width:2.4rem}
    }
    @media screen and (max-width:76rem){\(blocks(of: ".broad"))}
    @media print{
    @page{size:A4 landscape;margin:10mm}
    :root{color-scheme:light;--page:#fff;--card:#fff;--ink:#000;--soft:#333;--line:#bbb;--link:#000;
    --track:#ddd;--bar:#3a6ea5;--gain:#12703f;--loss:#a8321f;--open:#8a5a00;--alarm:#fff;
    --warn:#fff;--good:#fff;--calm:#fff}
    *{-webkit-print-color-adjust:exact;print-color-adjust:exact}
    body{font-size:9pt}.site nav,form,.skip,.screen,.scroll>.hint{display:none}.two{display:block}
    main,.foot,.site>div{max-width:none;padding:0}
    section{border:0;padding:0;margin:.6rem 0}h1,h2,h3,.lead{break-after:avoid}
    .scroll{overflow:visible}table{font-size:7.5pt}thead{display:table-header-group}
    tr,thead,figcaption,.curve,.bars,.facts>div,.cards li,.notices li{break-inside:avoid}
    .curve,.bars,tbody>tr:first-child{break-before:avoid}
    figcaption,caption,summary,thead,thead tr,.facts dt{break-after:avoid}thead th,.sub,.note,dt{font-size:inherit}h1{font-size:15pt}h2{font-size:11pt}
    th,td{padding:.12rem .6rem .12rem 0}td:not(.number){overflow-wrap:anywhere}tbody th,.stacked td:not(.number){min-width:0}
    tfoot{display:table-row-group}table.many th,table.many td{padding-right:.3rem}
    table.many{font-size:6pt;table-layout:fixed}table.many th,table.many td{white-space:normal;
    overflow-wrap:anywhere}table.many time,table.many .id{white-space:normal}
    details::details-content{content-visibility:visible;display:block;block-size:auto}
    details.screen{display:none}
    }
    """
